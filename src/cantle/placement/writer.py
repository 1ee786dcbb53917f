"""Carries out the steps of a difference, one request each; two or three more where Placement does not know a name of ours yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from cantle.errors import Conflict
from cantle.model.provider import Provider
from cantle.placement.difference import Create, Delete, Move, SetInventories, SetTraits, Step

if TYPE_CHECKING:
    from cantle.placement.client import PlacementClient  # needs an extra; whoever has a client has it


class Writer:
    """Writes providers. ``written`` counts the steps."""

    def __init__(self, placement: PlacementClient) -> None:
        self._placement = placement
        self.written = 0

    def write(self, uuid: str, name: str, steps: Iterable[Step], seen: Provider | None) -> Provider | None:
        """The provider afterwards; None when it is not there any more.

        :param name: what a new one is called.
        :param seen: what it is before; None if it is not there.
        :raises CantleError: what the calls of `cantle.placement.client.PlacementClient` raise.
        """
        for step in steps:
            seen = self._step(uuid, name, step, seen)
            self.written += 1
        return seen

    def _step(self, uuid: str, name: str, step: Step, seen: Provider | None) -> Provider | None:
        if isinstance(step, Create):
            return self._placement.create(uuid, name, step.parent)
        assert seen is not None  # noqa: S101 - a step before this one made or found it
        if isinstance(step, Move):
            generation = self._placement.move(uuid, seen.name, step.parent)  # its name stays, whatever ours would be
            return replace(seen, parent=step.parent, generation=generation)
        if isinstance(step, Delete):
            self._placement.delete(uuid)
            return None
        if isinstance(step, SetTraits):
            return self._set_traits(seen, step.traits)
        return self._set_inventories(seen, step)

    def _set_traits(self, seen: Provider, traits: frozenset[str]) -> Provider:
        def write() -> int:
            return self._placement.set_traits(seen.uuid, seen.generation, traits)

        def teach() -> None:
            for name in sorted(traits - self._placement.known_traits(traits)):
                self._placement.make_trait(name)

        return replace(seen, traits=traits, generation=_taught(write, teach))

    def _set_inventories(self, seen: Provider, step: SetInventories) -> Provider:
        def write() -> int:
            return self._placement.set_inventories(seen.uuid, seen.generation, step.inventories)

        def teach() -> None:
            for name in sorted(step.inventories):
                if name.startswith("CUSTOM_"):
                    self._placement.make_class(name)

        return replace(seen, inventories=dict(step.inventories), generation=_taught(write, teach))


def _taught(write: Callable[[], int], teach: Callable[[], None]) -> int:
    """Write; if Placement refuses, for it may not know a name of ours yet, make those known and write once more."""
    try:
        return write()
    except Conflict as error:
        if error.code != "placement-refused":
            raise
        teach()
        return write()
