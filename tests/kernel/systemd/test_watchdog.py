"""systemd's watchdog: what is stopped comes back by itself, and what waits on purpose is left alone."""

from __future__ import annotations

import pytest
from tests.kernel.systemd.cloud import AGENT, Cloud, handles

_KEEPER = "cantle-keeper.service"


@pytest.mark.parametrize(("stopped", "waiting"), [(_KEEPER, AGENT), (AGENT, _KEEPER)])
def test_a_service_that_is_stopped_is_started_again_and_one_that_waits_meanwhile_is_not(
    cloud: Cloud, stopped: str, waiting: str
) -> None:
    """The other one has the same time; an agent waits a minute for work, a keeper for what is due. What is lent stays."""
    computer = cloud.computer
    lease = cloud.lend("serial")
    before, others = _starts(cloud, stopped), _starts(cloud, waiting)
    computer.run("systemctl", "kill", "--kill-whom=main", "--signal=STOP", stopped)
    computer.until(lambda: _starts(cloud, stopped) == before + 1, f"{stopped} is started again", seconds=300)
    computer.until(lambda: computer.unit(stopped, "ActiveState")["ActiveState"] == "active", f"{stopped} runs again")
    assert any("watchdog" in line.lower() for line in computer.journal(stopped))
    assert _starts(cloud, waiting) == others
    assert cloud.mdevs() == set(handles(lease))
    cloud.give_back(lease)


def _starts(cloud: Cloud, unit: str) -> int:
    return int(cloud.computer.unit(unit, "NRestarts")["NRestarts"])
