"""Going down."""

from __future__ import annotations

import time
from contextlib import ExitStack

import pytest

from cantle.store.wakeups import Wakeups


@pytest.mark.parametrize(("per_second", "seconds"), [(float("inf"), 0.0), (500.0, 0.1)])
def test_a_process_that_goes_down_rings_all_who_wait_as_fast_as_it_was_told(
    monkeypatch: pytest.MonkeyPatch, per_second: float, seconds: float
) -> None:
    wakeups = Wakeups(5.0)
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    with ExitStack() as stack:
        waiters = [stack.enter_context(wakeups.waiter(f"host/h{number}")) for number in range(60)]
        assert not wakeups.stopped
        wakeups.stop(per_second=per_second)
        assert wakeups.stopped
        assert all(waiter.wait(0) for waiter in waiters)
    assert sum(slept) == pytest.approx(seconds)
