"""What a workload asks for: request groups, whatever they were written as (profile, flavor, extra specs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from cantle.errors import BadRequest
from cantle.model import requirement
from cantle.model.numa import NumaPolicy
from cantle.model.profile import traits
from cantle.model.requirement import Requirement

E = TypeVar("E", bound=StrEnum)


class Packing(StrEnum):
    """Which of the hosts and cards that would do are taken first."""

    PACK = "pack"
    """The fullest: keeps whole cards and whole hosts free for those who need them."""
    SPREAD = "spread"
    """The emptiest: a host or card that fails takes the fewest with it."""


@dataclass(frozen=True, slots=True)
class RequestGroup:
    """So many units that are alike.

    :param name: for people: ``group 0``, ``resources1``, ``alias a1``, ``gpus``.
    :param amounts: units by resource class; empty where ``specs`` say what is meant. A group that names several classes wants one
        provider that has them all.
    :param count: units of whatever ``specs`` match, where there are no ``amounts``.
    :param any_of: of each set the card must have one trait.
    :param specs: of an alias: pairs of key and value; a card must match one of them.
    :param labels: what the card's labels must be.
    :param together: all units come from one provider (as Placement's groups).
    :param apart: each unit comes from another card.
    :param numa: how near to each other, or to the guest's nodes, the cards must be; None: as it comes.
    :param containers: they go into a container: what only containers can be given will do.
    :param prefer: traits, models or ids; cards with the first come before those with the second, those before all others.
    """

    name: str
    amounts: tuple[tuple[str, int], ...] = ()
    count: int = 0
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    any_of: tuple[frozenset[str], ...] = ()
    specs: tuple[tuple[tuple[str, str], ...], ...] = ()
    labels: tuple[Requirement, ...] = ()
    together: bool = True
    apart: bool = False
    numa: NumaPolicy | None = None
    prefer: tuple[str, ...] = ()
    packing: Packing | None = None
    containers: bool = False

    @property
    def units(self) -> int:
        """How many units it asks for."""
        return sum(amount for _, amount in self.amounts) if self.amounts else self.count


@dataclass(frozen=True, slots=True)
class Request:
    """All groups of one workload: they are served together on one host, or not at all.

    :param isolate: every group from another provider (``group_policy=isolate``).
    :param ignored: keys of a flavor that say nothing about accelerators.
    :param once: how many groups it has if it is asked for once; 0: all of them.
    """

    groups: tuple[RequestGroup, ...]
    isolate: bool = False
    ignored: tuple[str, ...] = ()
    once: int = 0

    @property
    def units(self) -> int:
        """How many units it asks for."""
        return sum(group.units for group in self.groups)

    @property
    def count(self) -> int:
        """How often it is asked for."""
        return len(self.groups) // (self.once or len(self.groups))

    @property
    def classes(self) -> frozenset[str] | None:
        """The resource classes that can serve it; None where a group does not say."""
        if any(not group.amounts for group in self.groups):
            return None
        return frozenset(name for group in self.groups for name, _ in group.amounts)

    def times(self, count: int) -> Request:
        """The same so many times over."""
        return replace(self, groups=self.groups * count, once=len(self.groups)) if count > 1 else self

    def into_container(self) -> Request:
        """The same for a container."""
        return replace(self, groups=tuple(replace(group, containers=True) for group in self.groups))

    def number(self, position: int) -> int:
        """The group's number in the profile, of its position among all groups."""
        return position % (self.once or len(self.groups))


#: Keys of profile groups that Cantle alone understands; Nova passes over ``accel:`` keys.
NUMA_KEY = "accel:numa_policy"
PREFER_KEY = "accel:prefer"
APART_KEY = "accel:anti_affinity"
PACKING_KEY = "accel:packing"
LABEL_PREFIX = "accel:label:"


def of_profile(groups: Sequence[Mapping[str, str]]) -> Request:
    """The request that the checked groups of a device profile make.

    :raises BadRequest: ``bad-profile-groups`` for an ``accel:`` key of ours with a value that means nothing, ``bad-extra-spec`` for a
        label's.
    """
    return Request(tuple(_of_group(number, group) for number, group in enumerate(groups)))


def _of_group(number: int, group: Mapping[str, str]) -> RequestGroup:
    where = f"group {number}"
    apart = _one_of(where, APART_KEY, group.get(APART_KEY), ("card", "none"))
    return RequestGroup(
        name=where,
        amounts=tuple(
            (key.partition(":")[2], int(value)) for key, value in group.items() if key.startswith("resources:")
        ),
        required=frozenset(traits(group, "required")),
        forbidden=frozenset(traits(group, "forbidden")),
        labels=tuple(_label(where, key, text) for key, text in group.items() if key.startswith(LABEL_PREFIX)),
        together=apart != "card",
        apart=apart == "card",
        numa=_member(where, NUMA_KEY, group.get(NUMA_KEY), NumaPolicy),
        prefer=words(group.get(PREFER_KEY, "")),
        packing=_member(where, PACKING_KEY, group.get(PACKING_KEY), Packing),
    )


def _label(where: str, key: str, text: str) -> Requirement:
    name = key.removeprefix(LABEL_PREFIX)
    if not name:
        raise BadRequest("bad-profile-groups", f"{where.capitalize()}: {key} names no label; write {key}NAME.")
    return requirement.parse(name, text, written=f"{where.capitalize()}: {key}")


def words(text: str) -> tuple[str, ...]:
    """A list written with commas."""
    return tuple(filter(None, map(str.strip, text.split(","))))


def _member(where: str, key: str, text: str | None, kind: type[E]) -> E | None:
    found = _one_of(where, key, text, tuple(kind))
    return None if found is None else kind(found)


def _one_of(where: str, key: str, text: str | None, among: Sequence[str]) -> str | None:
    if text is not None and text not in among:
        raise BadRequest(
            "bad-profile-groups", f"{where.capitalize()}: {key} is {text!r}; say one of {', '.join(among)}."
        )
    return text
