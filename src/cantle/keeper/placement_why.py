"""Why one provider does not do for a group of a request, by what Placement has of it; and what to do about that. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cantle.keeper.placement_sums import left_of
from cantle.model.provider import Inventory, Record
from cantle.model.request import RequestGroup
from cantle.scheduling.explain import Why

DIFF = "cantle placement diff shows what it shall have, and why"


@dataclass(frozen=True, slots=True)
class Ours:
    """A provider that we publish, whether Placement has it or not."""

    hostname: str
    root: str | None
    record: Record

    @property
    def resource_class(self) -> str | None:
        """What we wrote that it has; None where nothing was written."""
        return self.record.forms[-1].resource_class if self.record.forms else None


def of_provider(group: RequestGroup, one: Ours, there: set[str], traits: Mapping[str, set[str]]) -> Why | None:
    """The first reason why a provider does not do for a group, apart from how much it has left; None when there is none."""
    uuid = one.record.uuid
    if uuid not in there:
        return Why("not-in-placement", "is not in Placement", DIFF)
    wanted = {name for name, _ in group.amounts}
    if one.resource_class is not None and wanted != {one.resource_class}:
        return Why(
            "other-class", f"offers {one.resource_class}", "ask for that, or set another mode: cantle device set-mode"
        )
    for name in sorted(group.required):
        if uuid not in traits[name]:
            return Why("lacks-trait", f"lacks {name} in Placement", f"do without the trait; {DIFF}")
    for some in group.any_of:
        if not any(uuid in traits[name] for name in some):
            return Why("lacks-trait", f"lacks all of {', '.join(sorted(some))} in Placement", "ask for another trait")
    for name in sorted(group.forbidden):
        if uuid in traits[name]:
            return Why("forbidden-trait", f"has {name}, which is forbidden", "do not forbid the trait")
    return None


def of_amounts(group: RequestGroup, inventories: Mapping[str, Inventory], used: Mapping[str, int], ours: Record) -> Why:
    """Why a provider cannot give what a group wants of it, by what Placement has of it."""
    for name, wanted in group.amounts:
        one = inventories.get(name)
        if one is None:
            return Why("no-inventory", f"has no {name} in Placement", DIFF)
        if not one.min_unit <= wanted <= one.max_unit or wanted % one.step_size:
            steps = "" if one.step_size == 1 else f" in steps of {one.step_size}"
            what = f"gives one group {one.min_unit} to {one.max_unit} {name}{steps}, {wanted} wanted"
            return Why("not-so-many-at-once", what, _more_at_once(name, one, wanted))
        if left_of(one, used.get(name, 0)) >= wanted:
            continue
        if ours.operator.reserved and one.reserved >= one.total:
            return Why("all-reserved", f"has all {name} reserved by an operator", _amend(f"{name}:reserved=0"))
        if one.reserved >= one.total:
            return Why("all-reserved", f"has all {name} reserved in Placement", DIFF)
        parts = [f"{used.get(name, 0)} of {one.total} {name} allocated"]
        parts += [f"{one.reserved} reserved"] if one.reserved else []
        parts += [f"a ratio of {one.allocation_ratio:g}"] if one.allocation_ratio < 1 else []
        mend = (
            "wait, or see who has them: openstack resource provider show --allocations PROVIDER, cantle placement check"
        )
        if left_of(replace(one, allocation_ratio=max(1.0, one.allocation_ratio)), used.get(name, 0)) >= wanted:
            mend = _amend(f"{name}:allocation_ratio=1")
        return Why("too-few-left", f"has {' and '.join(parts)}, {wanted} wanted", mend)
    return Why("changed-meanwhile", "was changed while this was asked", "ask again")


def _more_at_once(name: str, one: Inventory, wanted: int) -> str:
    if wanted > one.max_unit:
        more = _amend(f"{name}:max_unit={wanted}")
        return f"ask for fewer in one group, or raise max_unit: [placement] vgpu_max_unit for VGPU, else {more}"
    return _amend(f"{name}:min_unit=1" if wanted < one.min_unit else f"{name}:step_size=1")


def _amend(what: str) -> str:
    """How an operator changes one field of an inventory; the provider's uuid is in ``cantle placement diff``."""
    return f"openstack resource provider inventory set --amend --resource {what} PROVIDER"
