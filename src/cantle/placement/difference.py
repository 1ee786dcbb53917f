"""What must be written so that one provider becomes what it shall be. Pure.

Three things come together: what is wanted, what Placement has, and what we wrote before. A value in Placement that we did not write is
an operator's: it stays. What somebody uses stays too, with everything reserved, until he has let go of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cantle.errors import Conflict
from cantle.model.naming import OWNER_TRAIT
from cantle.model.provider import Form, Inventory, Operator, Provider, Record, Wanted


@dataclass(frozen=True, slots=True)
class Create:
    """Make the provider, with nothing in it."""

    parent: str


@dataclass(frozen=True, slots=True)
class Move:
    """Give it its parent."""

    parent: str


@dataclass(frozen=True, slots=True)
class SetTraits:
    """Replace its traits."""

    traits: frozenset[str]


@dataclass(frozen=True, slots=True)
class SetInventories:
    """Replace its inventories."""

    inventories: Mapping[str, Inventory]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete it."""


Step = Create | Move | SetTraits | SetInventories | Delete


@dataclass(frozen=True, slots=True)
class Difference:
    """The writes, in order, and what to remember.

    :param before: the record to keep before the first write, so that whatever of them takes effect is known for ours.
    :param after: the forms to keep after the last one.
    :param retiring: somebody still has something that is to go away: look again later.
    """

    steps: tuple[Step, ...]
    before: Record
    after: tuple[Form, ...] = ()
    retiring: bool = False


def is_ours(provider: Provider) -> bool:
    """Whether a provider with a uuid of ours may be written: it has the owner's trait, or is one we had only begun to make."""
    return OWNER_TRAIT in provider.traits or not (provider.traits or provider.inventories)


def needs_usages(wanted: Wanted, record: Record, actual: Provider | None) -> bool:
    """Whether it must be known what is allocated of it: something is to be taken away."""
    if actual is None:
        return False
    if wanted.gone or _old_classes(wanted, record, actual):
        return True
    standing = actual.inventories.get(wanted.resource_class)
    return standing is not None and standing.total > wanted.total


def difference(
    wanted: Wanted, record: Record, actual: Provider | None, root: str, usages: Mapping[str, int] | None = None
) -> Difference:
    """The difference between what is wanted and what Placement has.

    :param root: uuid of the provider that is to be its parent.
    :param usages: allocated units by class; needed where `needs_usages` says so.
    :raises Conflict: ``provider-not-ours``.
    """
    if actual is None:
        return Difference((), replace(record, seen=None)) if wanted.gone else _new(wanted, record, root)
    if not is_ours(actual):
        raise Conflict(
            "provider-not-ours",
            f"Provider {actual.name} ({actual.uuid}) has our uuid and not the trait {OWNER_TRAIT}; it is left alone. Give the trait back: "
            f"'openstack resource provider trait set {_words(actual.traits | {OWNER_TRAIT})} {actual.uuid}'; or, when nobody has "
            f"anything of it, delete it, and it is made anew: 'openstack resource provider delete {actual.uuid}'.",
        )
    used = usages or {}
    learned = replace(record, operator=_learned(wanted, record, actual), seen=actual)
    if wanted.gone and not any(used.values()):
        return Difference((Delete(),), learned)
    return _changed(wanted, learned, actual, root, used)


def _new(wanted: Wanted, record: Record, root: str) -> Difference:
    """Traits before inventory: without the owner's trait nothing of it may be taken."""
    inventory = _inventory(wanted, wanted.total, record.operator)
    form = Form.of(wanted.resource_class, inventory, wanted.traits)
    traits = wanted.traits | record.operator.traits
    steps = (Create(root), SetTraits(traits), SetInventories({wanted.resource_class: inventory}))
    return Difference(steps, replace(record, seen=None, forms=_added(record.forms, form), unsure=True), (form,))


def _changed(wanted: Wanted, record: Record, actual: Provider, root: str, used: Mapping[str, int]) -> Difference:
    kept = {name: used[name] for name in _old_classes(wanted, record, actual) if used.get(name)}
    inventories = {
        name: one for name, one in actual.inventories.items() if name not in _our_classes(record) and name not in kept
    }
    forms = []
    for name, count in kept.items():
        inventories[name] = replace(actual.inventories[name], total=count, reserved=count)
        forms.append(Form.of(name, inventories[name], wanted.traits))
    total = max(wanted.total, used.get(wanted.resource_class, 0))
    if not wanted.gone:
        withheld = wanted.withheld or ("something of another class is still in use" if kept else None)
        standing = actual.inventories.get(wanted.resource_class)
        inventory = _inventory(replace(wanted, withheld=withheld), total, record.operator, standing)
        inventories[wanted.resource_class] = inventory
        forms.append(Form.of(wanted.resource_class, inventory, wanted.traits))
    traits = _theirs(record, actual) | wanted.traits | record.operator.traits
    ours = _our_classes(record) | {wanted.resource_class}
    steps, passing = _steps(actual, root, traits, inventories, ours)
    retiring = wanted.gone or bool(kept) or total > wanted.total
    before = replace(record, forms=_added(record.forms, *passing, *forms), unsure=bool(steps))
    return Difference(steps, before, tuple(forms), retiring)


def _steps(
    actual: Provider, root: str, traits: frozenset[str], inventories: Mapping[str, Inventory], ours: frozenset[str]
) -> tuple[tuple[Step, ...], list[Form]]:
    """The writes, and what is there for a moment between them.

    Where traits and inventory both change, nothing may be taken between the two: all is reserved first, unless it was before, or the
    inventory comes first since all of it will be.
    """
    steps: list[Step] = []
    passing: list[Form] = []
    if actual.parent != root:
        steps.append(Move(root))
    changed = inventories != actual.inventories
    if traits != actual.traits:
        if changed and OWNER_TRAIT in actual.traits and _is_closed(inventories, ours):
            return (*steps, SetInventories(inventories), SetTraits(traits)), passing
        if changed and not _is_closed(actual.inventories, ours):
            closed = {
                name: replace(one, reserved=one.total) for name, one in actual.inventories.items() if name in ours
            }
            steps.append(SetInventories({**actual.inventories, **closed}))
            passing = [Form.of(name, one) for name, one in closed.items()]
        steps.append(SetTraits(traits))
    if changed:
        steps.append(SetInventories(inventories))
    return tuple(steps), passing


def _is_closed(inventories: Mapping[str, Inventory], ours: frozenset[str]) -> bool:
    """Whether nothing of these classes may be taken."""
    return all(one.reserved >= one.total for name, one in inventories.items() if name in ours)


def _inventory(wanted: Wanted, total: int, operator: Operator, standing: Inventory | None = None) -> Inventory:
    """What it shall have of the wanted class.

    :param standing: what it has of it: what an operator made of that is left as it is.
    """
    reserved = total if wanted.withheld is not None else min(total, wanted.reserved + operator.reserved)
    max_unit = operator.max_unit or wanted.max_unit
    if standing is not None:
        return replace(standing, total=total, reserved=reserved, max_unit=max_unit)
    plain = Inventory(total, reserved, max_unit)
    ratio = min(1.0, operator.allocation_ratio)  # more would be offered than can be delivered
    his = replace(plain, min_unit=operator.min_unit, step_size=operator.step_size, allocation_ratio=ratio)
    return his if _can_be_taken(his) else plain


def _can_be_taken(one: Inventory) -> bool:
    """Whether there is a number of units that Placement gives of it, when nothing is reserved."""
    fewest = math.ceil(one.min_unit / one.step_size) * one.step_size
    return fewest <= min(one.max_unit, int(one.total * one.allocation_ratio))


def _learned(wanted: Wanted, record: Record, actual: Provider) -> Operator:
    """What an operator set: traits that we did not write, and values of the wanted class; of a former one, where that is not there yet."""
    if OWNER_TRAIT not in actual.traits:
        return record.operator  # one that was only begun
    learned = replace(record.operator, traits=_theirs(record, actual) - wanted.traits)
    for name in (wanted.resource_class, *(form.resource_class for form in reversed(record.forms))):
        ours = [form for form in record.forms if form.resource_class == name]
        if ours and name in actual.inventories:
            return _values(learned, actual.inventories[name], ours)
    return learned


def _values(operator: Operator, standing: Inventory, ours: Sequence[Form]) -> Operator:
    """The same with each value that is in none of the forms."""
    changed: dict[str, Any] = {}
    for name in ("reserved", "max_unit", "min_unit", "step_size", "allocation_ratio"):
        value = getattr(standing, name)
        if value not in {getattr(form, name) for form in ours}:
            changed[name] = value
    return replace(operator, **changed)


def _theirs(record: Record, actual: Provider) -> frozenset[str]:
    """Traits that we did not write."""
    return actual.traits.difference(*(form.traits for form in record.forms))


def _words(traits: frozenset[str]) -> str:
    """As osc-placement wants them; it replaces all that are there."""
    return " ".join(f"--trait {name}" for name in sorted(traits))


def _our_classes(record: Record) -> frozenset[str]:
    return frozenset(form.resource_class for form in record.forms)


def _old_classes(wanted: Wanted, record: Record, actual: Provider) -> list[str]:
    """Classes of ours that shall not be there. What others put on a provider of ours stays as it is."""
    ours = _our_classes(record) | {wanted.resource_class}
    return sorted(name for name in ours & set(actual.inventories) if name != wanted.resource_class or wanted.gone)


def _added(forms: tuple[Form, ...], *more: Form) -> tuple[Form, ...]:
    return (*(form for form in forms if form not in more), *dict.fromkeys(more))
