"""How units are kept apart: what the names of types say, and what a lease of several is told to be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.model.device import Mode
from cantle.model.isolation import LABEL, Isolation, of_device, of_nvidia_type, weakest


@pytest.mark.parametrize(
    ("name", "isolation"),
    [
        ("GRID T4-2B", Isolation.TIME),
        ("GRID V100DX-8Q", Isolation.TIME),
        ("GRID K180Q", Isolation.TIME),
        ("NVIDIA A100-5C", Isolation.TIME),
        ("GRID A100-1-5C", Isolation.HARDWARE),
        ("GRID A100D-2-20C", Isolation.HARDWARE),
        ("NVIDIA A100-1-5CME", Isolation.HARDWARE),
        ("NVIDIA H100XM-7-80C", Isolation.HARDWARE),
        ("NVIDIA RTX Pro 6000 Blackwell DC-1-8Q", Isolation.UNKNOWN),
        ("", Isolation.UNKNOWN),
        (None, Isolation.UNKNOWN),
    ],
)
def test_a_vgpu_type_says_by_its_name_whether_it_has_a_mig_instance_to_itself(
    name: str | None, isolation: Isolation
) -> None:
    assert of_nvidia_type(name) is isolation


@pytest.mark.parametrize(
    ("mode", "labels", "isolation"),
    [
        (Mode.PASSTHROUGH, {LABEL: "hardware"}, Isolation.HARDWARE),
        (Mode.MDEV, {LABEL: "time"}, Isolation.TIME),
        (Mode.MDEV, {"rack": "r7"}, Isolation.UNKNOWN),
        (Mode.MDEV, None, Isolation.UNKNOWN),
        (Mode.MDEV, {LABEL: "perfect"}, Isolation.UNKNOWN),
        (Mode.DISPLAY_ONLY, {LABEL: "hardware"}, None),
        (Mode.UNASSIGNABLE, None, None),
    ],
)
def test_what_nobody_says_is_unknown_and_what_is_never_lent_has_none(
    mode: Mode, labels: dict[str, str] | None, isolation: Isolation | None
) -> None:
    assert of_device(mode, labels) is isolation


@given(st.lists(st.none() | st.sampled_from(Isolation)))
def test_a_lease_is_kept_apart_no_better_than_any_of_its_units(units: list[Isolation | None]) -> None:
    order = list(Isolation)
    found = weakest(units)
    assert (found is None) == all(one is None for one in units)
    assert all(found is not None and order.index(found) <= order.index(one) for one in units if one is not None)
    assert found is None or found in units
