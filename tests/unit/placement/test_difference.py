"""The pure rules: whatever Placement has and whatever is wanted, the writes keep what is others' and what is used, and are enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.errors import Conflict
from cantle.model.provider import Form, Inventory, Operator, Provider, Record, Wanted
from cantle.placement.difference import (
    Create,
    Delete,
    Difference,
    Move,
    SetInventories,
    SetTraits,
    difference,
    needs_usages,
)

UUID, ROOT, OTHER_ROOT = "11111111-1111-4111-8111-111111111111", "root", "another root"
CLASSES = ("VGPU", "PGPU", "CUSTOM_MLX5")
OURS = frozenset({"OWNER_CYBORG", "CUSTOM_A"})

amounts = st.integers(1, 4)
units = {
    "max_unit": amounts,
    "min_unit": st.integers(1, 3),
    "step_size": st.integers(1, 2),
    "allocation_ratio": st.sampled_from([0.5, 1.0, 4.0]),
}
inventories = st.builds(Inventory, total=amounts, reserved=st.integers(0, 4), **units).map(
    lambda one: replace(one, reserved=min(one.reserved, one.total))
)
traits = st.frozensets(st.sampled_from(["CUSTOM_A", "CUSTOM_B", "CUSTOM_GOLD"])).map(
    lambda some: some | {"OWNER_CYBORG"}
)
forms = st.builds(
    Form,
    resource_class=st.sampled_from(CLASSES),
    total=amounts,
    reserved=st.integers(0, 4),
    traits=traits,
    **units,
)
actuals = st.builds(
    Provider,
    uuid=st.just(UUID),
    name=st.just("card"),
    parent=st.sampled_from([ROOT, OTHER_ROOT]),
    generation=st.integers(1, 9),
    inventories=st.dictionaries(st.sampled_from([*CLASSES, "CUSTOM_THEIRS"]), inventories),
    traits=traits,
)
records = st.builds(
    Record,
    uuid=st.just(UUID),
    name=st.just("card"),
    forms=st.lists(forms, max_size=3).map(tuple),
    operator=st.builds(
        Operator, reserved=st.integers(0, 2), traits=traits, **{**units, "max_unit": st.none() | amounts}
    ),
)
wishes = st.builds(
    Wanted,
    uuid=st.just(UUID),
    name=st.just("card"),
    resource_class=st.sampled_from(CLASSES),
    total=amounts,
    max_unit=amounts,
    traits=traits,
    reserved=st.integers(0, 4),
    withheld=st.none() | st.just("it is failed"),
    gone=st.booleans(),
)
usages = st.dictionaries(st.sampled_from(CLASSES), st.integers(0, 3))


def used_of(actual: Provider | None, used: Mapping[str, int]) -> dict[str, int]:
    """Nobody uses what is not there."""
    return {} if actual is None else {name: used.get(name, 0) for name in actual.inventories if name in CLASSES}


def applied(actual: Provider | None, found: Difference) -> Provider | None:
    """The provider after the writes."""
    for step in found.steps:
        if isinstance(step, Create):
            assert actual is None
            actual = Provider(UUID, "card", step.parent, 0)
            continue
        assert actual is not None
        if isinstance(step, Delete):
            return None
        if isinstance(step, Move):
            actual = replace(actual, parent=step.parent)
        elif isinstance(step, SetTraits):
            actual = replace(actual, traits=step.traits)
        else:
            assert isinstance(step, SetInventories)
            actual = replace(actual, inventories=dict(step.inventories))
    return actual


@given(wish=wishes, record=records, actual=st.none() | actuals, used=usages)
def test_nothing_that_is_used_or_others_is_taken_and_once_is_enough(
    wish: Wanted, record: Record, actual: Provider | None, used: dict[str, int]
) -> None:
    used = used_of(actual, used)
    found = difference(wish, record, actual, ROOT, used)
    after = applied(actual, found)
    if actual is not None:
        ours = {form.resource_class for form in record.forms}
        kept = {name for name, count in used.items() if count} | (
            set(actual.inventories) - ours - {wish.resource_class}
        )
        assert after is not None or not any(used.values())
        if after is not None:
            assert kept <= set(after.inventories)
            assert actual.traits - frozenset().union(*(form.traits for form in record.forms)) <= after.traits
            for name in set(actual.inventories) - ours - {wish.resource_class}:
                assert after.inventories[name] == actual.inventories[name], "not ours"
    if after is not None:
        assert after.parent == ROOT
        assert "OWNER_CYBORG" in after.traits
        assert all(one.total > 0 for one in after.inventories.values())
    remembered = replace(found.before, seen=after, forms=found.after, unsure=False)
    again = difference(wish, remembered, after, ROOT, used_of(after, used))
    assert again.steps == ()


@given(wish=wishes, record=records, actual=st.none() | actuals, used=usages)
def test_at_no_moment_more_can_be_taken_than_before_or_after(
    wish: Wanted, record: Record, actual: Provider | None, used: dict[str, int]
) -> None:
    used = used_of(actual, used)
    found = difference(wish, record, actual, ROOT, used)
    after = applied(actual, found)
    for cut in range(1, len(found.steps)):
        between = applied(actual, replace(found, steps=found.steps[:cut]))
        assert between is not None
        for name, one in between.inventories.items():
            room = one.total - one.reserved
            ends = [end.inventories[name] for end in (actual, after) if end is not None and name in end.inventories]
            assert room <= max((end.total - end.reserved for end in ends), default=0)
            if room > 0 and after is not None and name in after.inventories:
                assert between.traits in (actual.traits if actual else None, after.traits)


@given(wish=wishes.filter(lambda one: not one.gone), record=records, actual=actuals)
def test_whatever_takes_effect_of_the_writes_is_known_for_ours_afterwards(
    wish: Wanted, record: Record, actual: Provider
) -> None:
    """Killed after any of the writes: what is there is in one of the forms that were kept before, so no operator is supposed."""
    if needs_usages(wish, record, actual) and actual.inventories:
        used: dict[str, int] = dict.fromkeys((name for name in actual.inventories if name in CLASSES), 0)
    else:
        used = {}
    found = difference(wish, record, actual, ROOT, used)
    for cut in range(len(found.steps) + 1):
        between = applied(actual, replace(found, steps=found.steps[:cut]))
        assert between is not None
        again = difference(wish, replace(found.before, seen=None), between, ROOT, used)
        if any(form.resource_class == wish.resource_class for form in record.forms) or cut == len(found.steps):
            assert again.before.operator == found.before.operator


def test_a_provider_without_the_owners_trait_is_not_ours() -> None:
    theirs = Provider(UUID, "card", ROOT, 3, {"VGPU": Inventory(4)}, frozenset({"CUSTOM_A"}))
    wish = Wanted(UUID, "card", "VGPU", 4, 1, OURS)
    with pytest.raises(Conflict) as refused:
        difference(wish, Record(UUID, "card"), theirs, ROOT)
    assert refused.value.code == "provider-not-ours"


def test_one_that_was_only_begun_is_ours() -> None:
    begun = Provider(UUID, "card", ROOT, 0)
    wish = Wanted(UUID, "card", "VGPU", 4, 1, OURS)
    found = difference(wish, Record(UUID, "card"), begun, ROOT)
    assert [type(step) for step in found.steps] == [SetTraits, SetInventories]


def test_a_class_of_somebody_else_on_our_provider_is_not_closed_while_ours_changes() -> None:
    """It was all reserved for that moment; killed then, we took it for ours, and it went with our own."""
    theirs = Inventory(4, max_unit=4)
    actual = Provider(UUID, "card", ROOT, 3, {"VGPU": Inventory(4), "CUSTOM_THEIRS": theirs}, OURS)
    record = Record(UUID, "card", forms=(Form("VGPU", 4, 0, 1, OURS),))
    found = difference(Wanted(UUID, "card", "VGPU", 8, 1, frozenset({"OWNER_CYBORG"})), record, actual, ROOT)
    written = [step.inventories for step in found.steps if isinstance(step, SetInventories)]
    assert [one["VGPU"].reserved for one in written] == [4, 0]
    assert [one["CUSTOM_THEIRS"] for one in written] == [theirs, theirs]
    assert {form.resource_class for form in found.before.forms} == {"VGPU"}


def test_one_that_was_only_begun_gets_the_owners_trait_before_anything_that_is_reserved() -> None:
    """Killed in between, it would not count as ours any more."""
    wish = Wanted(UUID, "card", "VGPU", 4, 1, OURS, withheld="in maintenance")
    found = difference(wish, Record(UUID, "card"), Provider(UUID, "card", ROOT, 0), ROOT)
    assert [type(step) for step in found.steps] == [SetTraits, SetInventories]
