"""Sums of groups against what providers have left and give at once."""

from __future__ import annotations

import pytest

from cantle.keeper.placement_sums import Stock, of_sums
from cantle.model.request import Request, RequestGroup

ONE = RequestGroup("one", (("VGPU", 1),))


@pytest.mark.parametrize(
    ("groups", "stocks", "code"),
    [
        (3, [Stock("VGPU", 1, 4), Stock("VGPU", 9, 1)], "not-so-many-at-once"),
        (2, [Stock("VGPU", 1, 4), Stock("VGPU", 9, 1)], None),
        (2, [Stock("VGPU", 1, 4), Stock("PGPU", 9, 9)], "too-few-together"),
        (1, [], "too-few-together"),
        (2, [Stock("VGPU", 2, 2)], None),
    ],
)
def test_the_first_sum_that_is_too_much(groups: int, stocks: list[Stock], code: str | None) -> None:
    why = of_sums(Request((ONE,) * groups), stocks)
    assert (None if why is None else why.code) == code
