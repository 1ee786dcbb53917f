"""Random histories of devices, leases, operators and faults end with Placement as it shall be."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.placement_service import Fault, Placement, Timeout, placement
from tests.unit.placement.world import T4_2B, World

from cantle.errors import CantleError
from cantle.placement.wanted import Part

FAULTS: list[Fault] = [409, 500, 503, Timeout(), Timeout(after=True)]
CLASSES = {
    "VGPU": frozenset({"OWNER_CYBORG", T4_2B}),
    "PGPU": frozenset({"OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8"}),
    "CUSTOM_MLX5": frozenset({"OWNER_CYBORG", "CUSTOM_MLX5_CORE"}),
}
part_states = st.fixed_dictionaries(
    {
        "resource_class": st.sampled_from(sorted(CLASSES)),
        "offered": st.integers(0, 4),
        "lent": st.integers(0, 2),
        "held_back": st.integers(0, 2),
        "out_of_service": st.sampled_from([None, None, "is failed"]),
        "vanished": st.sampled_from([False, False, True]),
    }
)
steps = st.one_of(
    st.tuples(st.just("becomes"), st.integers(0, 2), part_states),
    st.tuples(st.just("vanishes"), st.integers(0, 2), st.none()),
    st.tuples(st.just("allocate"), st.integers(0, 2), st.none()),
    st.tuples(st.just("release"), st.integers(0, 2), st.none()),
    st.tuples(st.just("delete there"), st.integers(0, 2), st.none()),
    st.tuples(st.just("sync"), st.integers(1, 9), st.sampled_from([None, *FAULTS])),
)


@pytest.fixture(scope="module")
def service() -> Iterator[Placement]:
    """One for all histories."""
    with placement() as made:
        yield made


class History:
    """What happens, step by step."""

    def __init__(self, service: Placement) -> None:
        service.empty()
        service.faults.clear()
        self.world = World(service)
        self.uuids = [str(uuid.uuid4()) for _ in range(3)]
        self.instances: list[str] = []
        self.strange = str(uuid.uuid4())
        body = {"name": "theirs", "uuid": self.strange, "parent_provider_uuid": self.world.node}
        service.call("POST", "/resource_providers", body)

    def becomes(self, number: int, state: dict[str, object]) -> None:
        """A part is there, in that state."""
        traits = CLASSES[str(state["resource_class"])]
        part = Part(self.uuids[number], f"compute-1_{number}", traits=traits, **state)  # type: ignore[arg-type]
        self.world.parts[part.uuid] = replace(part, held_back=min(part.held_back, part.lent))

    def allocate(self, number: int) -> None:
        """An instance takes one unit, if Placement lets it."""
        part = self.world.parts.get(self.uuids[number])
        if part is not None:
            try:
                self.instances.append(self.world.allocate(part))
            except AssertionError:
                return

    def release(self) -> None:
        """The youngest instance is gone."""
        if self.instances:
            self.world.release(self.instances.pop())

    def delete_there(self, number: int) -> None:
        """Somebody deletes a provider of ours, if Placement lets him."""
        try:
            self.world.placement.call("DELETE", f"/resource_providers/{self.uuids[number]}")
        except AssertionError:
            return

    def sync(self, number: int, fault: Fault | None) -> None:
        """An attempt in which one request goes wrong."""
        self.world.placement.faults.at = {} if fault is None else {number: fault}
        with contextlib.suppress(CantleError):
            self.world.sync()
        self.world.placement.faults.at = {}
        self.promises()

    def promises(self) -> None:
        """At any time: no allocation is lost, no inventory is empty, what can be taken has the owner's trait, others' are as they were;
        no trait and no class was deleted for all."""
        sent = self.world.placement.faults.sent
        assert not [one for one in sent if one.method == "DELETE" and not one.path.startswith("/resource_providers/")]
        call = self.world.placement.call
        for instance in self.instances:
            assert call("GET", f"/allocations/{instance}")["allocations"], "an allocation was lost"
        for name, shown in self.world.there().items():
            inventories = [one for key, one in shown.items() if key != "traits"]
            assert all(total > 0 for total, _reserved, _unit in inventories), name
            if name == "theirs":
                assert shown == {"traits": set()}
            elif inventories:
                assert "OWNER_CYBORG" in shown["traits"], name


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(steps, max_size=14))
def test_whatever_happens_placement_becomes_what_it_shall_be(
    service: Placement, history: list[tuple[str, int, object]]
) -> None:
    made = History(service)
    for what, number, more in history:
        acts: dict[str, Callable[[], object]] = {
            "becomes": lambda: made.becomes(number, more),  # type: ignore[arg-type]  # noqa: B023 - called at once
            "vanishes": lambda: made.world.parts.pop(made.uuids[number], None),  # noqa: B023
            "allocate": lambda: made.allocate(number),  # noqa: B023
            "release": made.release,
            "delete there": lambda: made.delete_there(number),  # noqa: B023
            "sync": lambda: made.sync(number, more),  # type: ignore[arg-type]  # noqa: B023
        }
        acts[what]()
    while made.instances:
        made.release()
    made.world.settle()
    made.promises()
    there = made.world.there()
    assert there.pop("theirs") == {"traits": set()}
    assert there == made.world.expected()
    assert made.world.sync().written == 0
    assert service.faults.sent == []
