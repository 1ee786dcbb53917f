"""Physical and virtual functions: each line of the reference's section 1.5 is a case under its id, and the machine is sound as a whole."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cantle.errors import Conflict
from cantle.model.pci_state import FROM, Functions, Operation, PciFunctionState, PciState, change, consistent, repaired

PF, VFS, PLAIN = "0000:81:00.0", ("0000:81:10.0", "0000:81:10.1"), "0000:3b:00.0"
S, O = PciState, Operation  # noqa: E741


def card() -> dict[str, PciFunctionState]:
    """A physical function with two virtual ones, and a plain one."""
    rows = [PciFunctionState(PF), *(PciFunctionState(vf, parent=PF) for vf in VFS), PciFunctionState(PLAIN)]
    return {one.address: one for one in rows}


def states(functions: Functions) -> dict[str, str]:
    """By address, those that are not available."""
    return {address: str(one.state) for address, one in functions.items() if one.state is not S.AVAILABLE}


def after(*steps: tuple[Operation, str], owner: str = "i1") -> dict[str, PciFunctionState]:
    """The card after these steps of one owner."""
    functions = card()
    for operation, address in steps:
        functions = change(functions, address, operation, owner)
    return functions


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        pytest.param([(O.CLAIM, PLAIN)], {PLAIN: "claimed"}, id="1.5 claim: available to claimed"),
        pytest.param(
            [(O.CLAIM, PLAIN), (O.ALLOCATE, PLAIN)], {PLAIN: "allocated"}, id="1.5 allocate: claimed to allocated"
        ),
        pytest.param([(O.ALLOCATE, PLAIN)], {PLAIN: "allocated"}, id="1.5 allocate: available to allocated"),
        pytest.param([(O.CLAIM, PLAIN), (O.FREE, PLAIN)], {}, id="1.5 free: claimed to available"),
        pytest.param([(O.ALLOCATE, PLAIN), (O.FREE, PLAIN)], {}, id="1.5 free: allocated to available"),
        pytest.param(
            [(O.CLAIM, PF)],
            {PF: "claimed", VFS[0]: "unclaimable", VFS[1]: "unclaimable"},
            id="1.5 claim of a PF makes its VFs unclaimable",
        ),
        pytest.param(
            [(O.CLAIM, PF), (O.ALLOCATE, PF)],
            {PF: "allocated", VFS[0]: "unavailable", VFS[1]: "unavailable"},
            id="1.5 allocate of a PF makes its VFs unavailable",
        ),
        pytest.param([(O.ALLOCATE, PF), (O.FREE, PF)], {}, id="1.5 free of a PF makes its VFs available"),
        pytest.param(
            [(O.CLAIM, VFS[0])], {VFS[0]: "claimed", PF: "unclaimable"}, id="1.5 claim of a VF makes its PF unclaimable"
        ),
        pytest.param(
            [(O.ALLOCATE, VFS[0])],
            {VFS[0]: "allocated", PF: "unavailable"},
            id="1.5 allocate of a VF makes its PF unavailable",
        ),
        pytest.param(
            [(O.ALLOCATE, VFS[0]), (O.CLAIM, VFS[1])],
            {VFS[0]: "allocated", VFS[1]: "claimed", PF: "unavailable"},
            id="1.5 claim of a VF whose PF is unavailable",
        ),
        pytest.param(
            [(O.ALLOCATE, VFS[0]), (O.ALLOCATE, VFS[1]), (O.FREE, VFS[0])],
            {VFS[1]: "allocated", PF: "unavailable"},
            id="1.5 a PF is free only when every VF is",
        ),
        pytest.param(
            [(O.ALLOCATE, VFS[0]), (O.ALLOCATE, VFS[1]), (O.FREE, VFS[0]), (O.FREE, VFS[1])],
            {},
            id="1.5 the last VF frees the PF",
        ),
        pytest.param([(O.REMOVE, PLAIN)], {PLAIN: "removed"}, id="1.5 remove: available to removed"),
        pytest.param(
            [(O.CLAIM, VFS[0]), (O.REMOVE, PF)],
            {VFS[0]: "claimed", PF: "removed"},
            id="1.5 remove: unclaimable to removed",
        ),
        pytest.param(
            [(O.ALLOCATE, VFS[0]), (O.REMOVE, PF)],
            {VFS[0]: "allocated", PF: "removed"},
            id="1.5 remove: unavailable to removed",
        ),
    ],
)
def test_operations_and_what_they_mean_for_relatives(steps: list[tuple[Operation, str]], found: dict[str, str]) -> None:
    assert states(after(*steps)) == found


def test_1_5_a_removed_function_is_deleted_when_it_is_saved() -> None:
    assert PLAIN not in after((O.REMOVE, PLAIN), (O.SAVE, PLAIN))


def test_1_5_free_clears_who_had_it() -> None:
    assert after((O.CLAIM, PLAIN))[PLAIN].owner == "i1"
    assert after((O.CLAIM, PLAIN), (O.FREE, PLAIN))[PLAIN].owner is None


@pytest.mark.parametrize("operation", O)
@pytest.mark.parametrize("state", S)
def test_1_5_every_other_state_is_refused_and_names_what_it_is_and_what_was_hoped(
    operation: Operation, state: PciState
) -> None:
    functions = {PLAIN: PciFunctionState(PLAIN, state)}
    if state in FROM[operation]:
        change(functions, PLAIN, operation)
        return
    with pytest.raises(Conflict) as caught:
        change(functions, PLAIN, operation)
    assert caught.value.code == "pci-wrong-state"
    assert f"is {state} instead of" in caught.value.message


@pytest.mark.parametrize("operation", [O.ALLOCATE, O.FREE])
def test_1_5_only_the_owner_is_given_it_or_frees_it(operation: Operation) -> None:
    with pytest.raises(Conflict) as caught:
        change(after((O.CLAIM, PLAIN)), PLAIN, operation, "i2")
    assert caught.value.code == "pci-other-owner"


@pytest.mark.parametrize("held", [O.CLAIM, O.ALLOCATE])
def test_1_5_a_relative_that_somebody_has_refuses_a_claim(held: Operation) -> None:
    wrong = {
        PF: PciFunctionState(PF),  # a row that says available though a virtual function is lent
        VFS[0]: PciFunctionState(VFS[0], S.CLAIMED if held is O.CLAIM else S.ALLOCATED, "i2", PF),
    }
    with pytest.raises(Conflict) as caught:
        change(wrong, PF, O.CLAIM, "i1")
    assert caught.value.code == "pci-relative-in-use"


class Machine(RuleBasedStateMachine):
    """Any operations by any owners, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.functions = card()

    @rule(
        operation=st.sampled_from([O.CLAIM, O.ALLOCATE, O.FREE]),
        address=st.sampled_from([PF, *VFS, PLAIN]),
        owner=st.sampled_from(["i1", "i2"]),
    )
    def operate(self, operation: Operation, address: str, owner: str) -> None:
        """One operation, which may be refused."""
        with contextlib.suppress(Conflict):
            self.functions = change(self.functions, address, operation, owner)

    @invariant()
    def sound(self) -> None:
        """Nobody has a function together with a relative, and the rows are as a repair would have them."""
        assert consistent(self.functions)
        held = {address for address, one in self.functions.items() if one.owner is not None}
        assert not (PF in held and held & set(VFS))


TestMachine = Machine.TestCase


@given(st.lists(st.tuples(st.sampled_from(S), st.sampled_from([None, "i1"])), min_size=4, max_size=4))
def test_rows_that_were_found_inconsistent_are_repaired_and_nobody_loses_what_he_has(
    rows: list[tuple[PciState, str | None]],
) -> None:
    wrong = {
        address: replace(one, state=state, owner=owner)
        for (address, one), (state, owner) in zip(card().items(), rows, strict=True)
    }
    mended = repaired(wrong)
    assert repaired(mended) == mended
    for address, one in wrong.items():
        assert mended[address].owner == one.owner
        if one.owner is None and one.state not in (S.REMOVED, S.DELETED):
            assert mended[address].state in (S.AVAILABLE, S.UNCLAIMABLE, S.UNAVAILABLE)
