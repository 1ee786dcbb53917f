"""Bring the providers of one host to what they shall be, with as few requests as can be.

What a provider was when we last read or wrote it is remembered with its generation, so a change is written without asking first; where
somebody else was there meanwhile, Placement says so, and it is read again. One provider in trouble does not hold up the others; Placement
in trouble ends the attempt, and the next one begins by looking.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from cantle.errors import CantleError, Conflict, NotFound, Unavailable
from cantle.model.provider import Node, Provider, Record, Wanted
from cantle.placement.difference import (
    Create,
    Delete,
    Difference,
    Move,
    SetInventories,
    SetTraits,
    Step,
    difference,
    needs_usages,
)
from cantle.placement.overlap import suspects

if TYPE_CHECKING:
    from cantle.placement.client import PlacementClient  # needs an extra; whoever has a client has it

#: How often one provider is tried when others change it at the same time.
TRIES = 5


class Ledger(Protocol):
    """Where records are kept. All raise whatever shall end the attempt, such as the loss of the claim on the host."""

    def take_root(self, root: Node) -> None:
        """This is the host's root provider from now on; raises if it is another host's."""

    def keep(self, records: Sequence[Record]) -> None:
        """Write records, for good, before returning."""

    def forget(self, uuids: Sequence[str]) -> None:
        """Those providers are not there any more."""


@dataclass(frozen=True, slots=True)
class HostTree:
    """One host: what is wanted, and what is known.

    :param names: what its root provider may be called, the likeliest first.
    :param root: the root as it was last found; None if it never was.
    :param wanted: by uuid, everything it shall have, and what shall go that we remember.
    :param look: read the tree even if nothing changed here: others may have changed it there.
    :param overlap: by uuid, what is held back since the compute service lends the same, as it was when the tree was last read.
    :param collide: computes that anew from Nova's own providers in the tree, when it is read.
    """

    hostname: str
    names: Sequence[str]
    root: Node | None
    wanted: Mapping[str, Wanted]
    records: Mapping[str, Record]
    look: bool = False
    overlap: Mapping[str, str] = field(default_factory=dict)
    collide: Callable[[Node, Sequence[Provider]], Mapping[str, str]] | None = None


@dataclass(slots=True)
class Outcome:
    """What came of it.

    :param others: providers in the host's tree that are not ours; None if the tree was not read.
    :param overlap: by uuid, what is held back since the compute service lends the same.
    :param retiring: names of providers that wait for somebody to let go.
    :param problems: by name of the provider, what kept it from what it shall be.
    """

    root: Node | None = None
    others: list[Node] | None = None
    overlap: Mapping[str, str] = field(default_factory=dict)
    retiring: list[str] = field(default_factory=list)
    problems: dict[str, CantleError] = field(default_factory=dict)
    written: int = 0


def find_root(placement: PlacementClient, hostname: str, names: Sequence[str]) -> Node:
    """The provider of the host's compute node.

    :raises NotFound: ``host-not-in-placement``.
    """
    for name in names:
        found = placement.find(name)
        if found is not None:
            return found
    tried = " and ".join(repr(name) for name in names)
    raise NotFound(
        "host-not-in-placement",
        f"Placement has no provider for host {hostname}: tried {tried}. Start its nova-compute, or name the provider in [placement] "
        f"provider_names = {hostname}:NAME.",
    )


class Sync:
    """One attempt at one host."""

    def __init__(self, placement: PlacementClient, host: HostTree, ledger: Ledger) -> None:
        self._placement = placement
        self._host = host
        self._ledger = ledger
        self._outcome = Outcome(host.root, overlap=host.overlap)
        self._root = ""
        self._kept: set[str] = set()

    def plan(self) -> dict[str, Difference]:
        """What `run` would write, by uuid, after the same reading. Writes nothing; providers in trouble are in `outcome`."""
        differences: dict[str, Difference] = {}
        for uuid, actual in self._actual().items():
            try:
                differences[uuid] = self._difference(uuid, self._record(uuid), actual)
            except Unavailable:
                raise
            except CantleError as error:
                self._outcome.problems[self._host.wanted[uuid].name] = error
        return differences

    @property
    def outcome(self) -> Outcome:
        """What came of it so far."""
        return self._outcome

    def run(self) -> Outcome:
        """Read what must be read, write what must be written.

        :raises NotFound: ``host-not-in-placement``.
        :raises Conflict: ``host-renamed``.
        :raises Unavailable: ``placement-away``; what was done so far is kept, the rest is done next time.
        """
        differences = self.plan()
        todo = {
            uuid: one for uuid, one in differences.items() if one.steps or one.before != self._host.records.get(uuid)
        }
        if todo:
            self._keep([one.before for one in todo.values()])
        done: list[Record] = []
        gone: list[str] = []
        try:
            for uuid, one in differences.items():
                self._one(uuid, one, done, gone)
        finally:
            if done:
                self._ledger.keep(done)
            if gone:
                self._ledger.forget(gone)
        return self._outcome

    def _actual(self) -> dict[str, Provider | None]:
        """Each provider as it is now, or as it was when we last knew."""
        host = self._host
        if host.root is not None and not (host.look or any(record.unsure for record in host.records.values())):
            self._root = host.root.uuid
            return {uuid: self._record(uuid).seen for uuid in host.wanted}
        tree = self._tree()
        self._outcome.others = [
            node for node in tree.values() if node.uuid not in host.wanted and node.uuid != self._root
        ]
        if host.collide is not None:
            assert self._outcome.root is not None  # noqa: S101 - the tree has one
            theirs = [self._look_into(node) for node in suspects(self._outcome.root, self._outcome.others)]
            found = [one for one in theirs if one is not None]
            self._outcome.overlap = host.collide(self._outcome.root, found)
        return {uuid: self._read(self._record(uuid), tree) for uuid in host.wanted}

    def _tree(self) -> dict[str, Node]:
        """The tree of the root we know; if that is gone, of the one that has the host's name now."""
        host = self._host
        tree = {} if host.root is None else self._placement.tree(host.root.uuid)
        if host.root is not None and host.root.uuid in tree:
            root = tree[host.root.uuid]
            if root.name not in host.names and root.name != host.root.name:
                raise Conflict(
                    "host-renamed",
                    f"The provider of host {host.hostname} is called {root.name} now. If the host was renamed, say so with 'cantle host "
                    f"rename {host.hostname} {root.name}'; else name it in [placement] provider_names = {host.hostname}:{root.name}.",
                )
        else:
            root = find_root(self._placement, host.hostname, host.names)
            tree = self._placement.tree(root.uuid)
        if root != host.root:
            self._ledger.take_root(root)
        self._root, self._outcome.root = root.uuid, root
        return tree

    def _read(self, record: Record, tree: Mapping[str, Node]) -> Provider | None:
        node = tree.get(record.uuid)
        if node is None:
            # It may be in another tree: that of a compute node which was made anew.
            node = self._placement.node(record.uuid) if record.forms else None
        if node is None:
            return None
        seen = record.seen
        if seen is not None and seen.generation == node.generation:
            return replace(seen, name=node.name, parent=node.parent)
        return self._look_into(node)

    def _look_into(self, node: Node) -> Provider | None:
        try:
            return self._placement.provider(node)
        except NotFound:
            return None

    def _record(self, uuid: str) -> Record:
        return self._host.records.get(uuid) or Record(uuid, self._host.wanted[uuid].name)

    def _difference(self, uuid: str, record: Record, actual: Provider | None) -> Difference:
        wanted = self._host.wanted[uuid]
        if wanted.withheld is None and uuid in self._outcome.overlap:
            wanted = replace(wanted, withheld=self._outcome.overlap[uuid])
        usages = None
        if needs_usages(wanted, record, actual):
            assert actual is not None  # noqa: S101 - else nothing is needed
            try:
                generation, usages = self._placement.usages(uuid)
                if generation != actual.generation:
                    actual = self._placement.provider(Node(uuid, actual.name, actual.parent, generation))
            except NotFound:
                actual = None
        return difference(wanted, record, actual, self._root, usages)

    def _one(self, uuid: str, first: Difference, done: list[Record], gone: list[str]) -> None:
        """Bring one provider there; what is known of it afterwards goes to ``done`` or ``gone``."""
        name = self._host.wanted[uuid].name
        try:
            record, retiring = self._bring(uuid, first)
        except Unavailable:
            raise
        except CantleError as error:
            self._outcome.problems[name] = error
            return
        if retiring:
            self._outcome.retiring.append(name)
        if record is None:
            gone.append(uuid)
        elif uuid in self._kept or record != self._host.records.get(uuid):
            done.append(record)

    def _bring(self, uuid: str, one: Difference) -> tuple[Record | None, bool]:
        for _attempt in range(TRIES):
            try:
                seen = self._write(uuid, one)
            except (Conflict, NotFound) as error:
                one = self._again(uuid, one, error)
                continue
            if seen is None:
                return None, False
            return replace(one.before, seen=seen, forms=one.after, unsure=False), one.retiring
        raise Conflict(
            "placement-conflict",
            f"Provider {self._host.wanted[uuid].name} was changed {TRIES} times while we wrote it.",
        )

    def _again(self, uuid: str, one: Difference, error: CantleError) -> Difference:
        """After a refusal: what must be written now. Raises the refusal if reading again cannot help."""
        moving = any(isinstance(step, Move) for step in one.steps)
        seen = one.before.seen
        if error.code in ("placement-conflict", "placement-in-use") and seen is not None:
            node: Node | None = Node(uuid, seen.name, seen.parent, seen.generation)
        else:
            node = self._placement.node(uuid)
        if error.code == "placement-refused" or (error.code == "provider-name-taken" and (node is None or moving)):
            raise error
        actual = None if node is None else self._look_into(node)
        again = self._difference(uuid, one.before, actual)
        self._keep([again.before])
        return again

    def _keep(self, records: Sequence[Record]) -> None:
        """Write down what is about to be written there."""
        self._ledger.keep(records)
        self._kept.update(record.uuid for record in records)

    def _write(self, uuid: str, one: Difference) -> Provider | None:
        seen = one.before.seen
        for step in one.steps:
            seen = self._step(uuid, step, seen)
            self._outcome.written += 1
        return seen

    def _step(self, uuid: str, step: Step, seen: Provider | None) -> Provider | None:
        wanted = self._host.wanted[uuid]
        if isinstance(step, Create):
            return self._placement.create(uuid, wanted.name, step.parent)
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
