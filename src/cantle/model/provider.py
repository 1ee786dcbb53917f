"""Resource providers: what Placement has, what it shall have, and what we remember of our own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Inventory:
    """How much of one resource class a provider has, in Placement's words."""

    total: int
    reserved: int = 0
    max_unit: int = 1
    min_unit: int = 1
    step_size: int = 1
    allocation_ratio: float = 1.0


@dataclass(frozen=True, slots=True)
class Provider:
    """A provider as Placement has it. ``generation`` grows with every change of it, allocations included."""

    uuid: str
    name: str
    parent: str | None
    generation: int
    inventories: Mapping[str, Inventory] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Node:
    """A provider's place in its tree: all that one ``in_tree`` read tells of it."""

    uuid: str
    name: str
    parent: str | None
    generation: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """What Placement shall have of one deployable (or pool).

    :param total: units; at least 1 unless ``gone``.
    :param reserved: of these, units that may not be taken though the provider is in service: lent by a lease of ours, or not yet taken
        back. An operator's own reservation comes on top.
    :param withheld: why nothing may be taken of it now, in words: all is reserved. None when it is in service.
    :param gone: it shall not be there at all, as soon as nobody has anything of it.
    """

    uuid: str
    name: str
    resource_class: str
    total: int
    max_unit: int
    traits: frozenset[str]
    reserved: int = 0
    withheld: str | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """What we wrote, or were about to write, of a provider. Values in Placement that are in none of its forms are somebody else's."""

    resource_class: str
    total: int
    reserved: int
    max_unit: int
    traits: frozenset[str]
    min_unit: int = 1
    step_size: int = 1
    allocation_ratio: float = 1.0

    @classmethod
    def of(cls, resource_class: str, one: Inventory, traits: frozenset[str] = frozenset()) -> Form:
        """The form that an inventory has."""
        units = (one.min_unit, one.step_size, one.allocation_ratio)
        return cls(resource_class, one.total, one.reserved, one.max_unit, traits, *units)


@dataclass(frozen=True, slots=True)
class Operator:
    """What an operator changed of a provider of ours, which we keep.

    :param max_unit: None while it is as we wrote it.
    :param traits: those that he added.
    """

    reserved: int = 0
    max_unit: int | None = None
    min_unit: int = 1
    step_size: int = 1
    allocation_ratio: float = 1.0
    traits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Record:
    """What we remember of a provider of ours.

    :param seen: what it was when we last read or wrote it; None if it was not there, or never was.
    :param forms: what we may have written, the newest last.
    :param unsure: writing was begun, and its outcome is not known: it must be read before anything is concluded from ``seen``.
    """

    uuid: str
    name: str
    seen: Provider | None = None
    forms: tuple[Form, ...] = ()
    operator: Operator = Operator()
    unsure: bool = False
