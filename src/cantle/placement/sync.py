"""Bring the providers of one host to what they shall be, with as few requests as can be.

What a provider was when we last read or wrote it is remembered with its generation, so a change is written without asking first; where
somebody else was there meanwhile, Placement says so, and it is read again. One provider in trouble does not hold up the others; Placement
in trouble ends the attempt, and the next one begins by looking.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cantle.errors import CantleError, Conflict, Forbidden, NotFound
from cantle.model.provider import Node, Provider, Record
from cantle.placement import exchange
from cantle.placement.difference import Delete, Difference, Move, difference, needs_usages
from cantle.placement.exchange import ExchangeHeldUp
from cantle.placement.overlap import suspects
from cantle.placement.refusal import NameTaken, ends_attempt
from cantle.placement.tree import HostTree, Ledger, Outcome, find_root, name_taken
from cantle.placement.writer import Writer

if TYPE_CHECKING:
    from cantle.placement.client import PlacementClient  # needs an extra; whoever has a client has it

#: How often one provider is tried when others change it at the same time.
TRIES = 5

_WHO_ELSE = (
    "It is tried again; if this lasts, see what else writes there: a Cyborg, or another Cantle, for the same host."
)


class Sync:
    """One attempt at one host."""

    def __init__(self, placement: PlacementClient, host: HostTree, ledger: Ledger) -> None:
        self._placement = placement
        self._host = host
        self._ledger = ledger
        self._outcome = Outcome(host.root, overlap=host.overlap)
        self._writer = Writer(placement)
        self._root = ""
        self._kept: set[str] = set()
        self._owed: dict[str, int] = {}

    def plan(self) -> dict[str, Difference]:
        """What `run` would write, by uuid, after the same reading. Writes nothing; providers in trouble are in `outcome`."""
        differences: dict[str, Difference] = {}
        for uuid, actual in self._actual().items():
            try:
                differences[uuid] = self._difference(uuid, self._record(uuid), actual)
            except CantleError as error:
                if ends_attempt(error):
                    raise
                self._outcome.problems[self._host.wanted[uuid].name] = error
        passed_on = exchange.inherited(self._host.trade, self._host.wanted, differences)
        differences |= {uuid: self._difference(uuid, record, record.seen) for uuid, record in passed_on.items()}
        return differences | self._with_what_is_owed(differences)

    @property
    def outcome(self) -> Outcome:
        """What came of it so far."""
        return self._outcome

    def run(self, before: Callable[[], None] | None = None) -> Outcome:
        """Read what must be read, write what must be written.

        :param before: called before anything is written.
        :raises NotFound: ``host-not-in-placement``.
        :raises Conflict: ``host-renamed``.
        :raises ExchangeHeldUp: before anything was written.
        :raises Unavailable: ``placement-away``; what was done so far is kept, the rest is done next time.
        """
        differences = self.plan()
        trading = self.trading(differences)
        if before is not None:
            before()
        todo = {
            uuid: one for uuid, one in differences.items() if one.steps or one.before != self._host.records.get(uuid)
        }
        if todo:
            self._keep([one.before for one in todo.values()])
        done: list[Record] = []
        gone: list[str] = []
        try:
            # What has less first: a card that leaves one provider for another is never offered twice.
            for uuid, one in sorted(differences.items(), key=lambda pair: exchange.gains(pair[1])):
                if uuid not in trading:
                    self._one(uuid, one, done, gone)
            if trading:
                self._exchange(trading, done, gone)
        finally:
            self._outcome.written = self._writer.written
            if done:
                self._ledger.keep(done)
            if gone:
                self._ledger.forget(gone)
        return self._outcome

    def trading(self, differences: Mapping[str, Difference]) -> dict[str, Difference]:
        """Those between which something moves now.

        :raises ExchangeHeldUp: one of them is in trouble, or the reshaper is not for us.
        """
        names = {uuid: self._host.wanted[uuid].name for uuid in self._host.trade.providers if uuid in self._host.wanted}
        for name in sorted(names.values()):
            if name in self._outcome.problems:
                raise ExchangeHeldUp(self._outcome.problems[name])
        trading = {uuid: differences[uuid] for uuid in names}
        if not exchange.moves(trading.values()):
            return {}
        try:
            self._placement.may_reshape()
        except Forbidden as error:
            raise ExchangeHeldUp(error) from error
        return trading

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
        if uuid in self._owed:
            wanted = replace(wanted, reserved=min(wanted.total, wanted.reserved + self._owed[uuid]))
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
        except CantleError as error:
            if ends_attempt(error):
                raise
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
                seen = self._writer.write(uuid, self._host.wanted[uuid].name, one.steps, one.before.seen)
            except (Conflict, NotFound) as error:
                one = self._again(uuid, one, error)
                continue
            if seen is None:
                return None, False
            return replace(one.before, seen=seen, forms=one.after, unsure=False), one.retiring
        raise Conflict(
            "placement-conflict",
            f"Provider {self._host.wanted[uuid].name} was changed {TRIES} times while we wrote it. {_WHO_ELSE}",
        )

    def _with_what_is_owed(self, differences: Mapping[str, Difference]) -> dict[str, Difference]:
        """Of what gains, with as much reserved as is still in use of what loses and no request of ours has: it may be bound yet."""
        trading = [uuid for uuid in sorted(self._host.trade.providers) if uuid in differences]
        gone = [uuid for uuid in trading if self._host.wanted[uuid].gone]
        owed = exchange.in_use(differences[uuid] for uuid in gone) - self._host.trade.counted
        self._owed = {}
        for uuid in trading:
            wanted = self._host.wanted[uuid]
            if owed > 0 and not wanted.gone and (part := min(owed, wanted.total - wanted.reserved)) > 0:
                self._owed[uuid] = part
                owed -= part
        return {
            uuid: self._difference(uuid, differences[uuid].before, differences[uuid].before.seen) for uuid in self._owed
        }

    def _exchange(self, trading: dict[str, Difference], done: list[Record], gone: list[str]) -> None:
        """Bring providers there between which something moves; what is known of them afterwards goes to ``done`` or ``gone``."""
        try:
            rest = self._exchanged(trading)
        except CantleError as error:
            if ends_attempt(error):
                raise
            self._outcome.problems.update(dict.fromkeys((self._host.wanted[uuid].name for uuid in trading), error))
            return
        for uuid, one in rest.items():
            self._one(uuid, one, done, gone)

    def _exchanged(self, trading: dict[str, Difference]) -> dict[str, Difference]:
        """Move it; what is left to do afterwards."""
        for _attempt in range(TRIES):
            try:
                self._reshape(trading)
            except (Conflict, NotFound) as error:
                trading = {uuid: self._again(uuid, one, error) for uuid, one in trading.items()}
                trading |= self._with_what_is_owed(trading)
                self._keep([one.before for one in trading.values()])
                continue
            return {uuid: self._after_exchange(uuid, one) for uuid, one in trading.items()}
        raise Conflict(
            "placement-conflict",
            f"Providers of {self._host.hostname} between which cards move were changed {TRIES} times while we wrote them. "
            f"{_WHO_ELSE}",
        )

    def _after_exchange(self, uuid: str, one: Difference) -> Difference:
        if exchange.is_last(one):
            return Difference((Delete(),), one.before)
        node = self._placement.node(uuid)
        return self._difference(uuid, one.before, None if node is None else self._look_into(node))

    def _reshape(self, trading: Mapping[str, Difference]) -> None:
        """What comes before the exchange, and the exchange."""
        inventories = {}
        for uuid, one in trading.items():
            seen = self._writer.write(uuid, self._host.wanted[uuid].name, exchange.first(one), one.before.seen)
            after = exchange.exchanged(one)
            if seen is not None and after is not None:
                inventories[uuid] = (seen.generation, after)
        if inventories:
            self._placement.reshape(inventories)
            self._writer.written += 1

    def _again(self, uuid: str, one: Difference, error: CantleError) -> Difference:
        """After a refusal: what must be written now. Raises the refusal if reading again cannot help."""
        moving = any(isinstance(step, Move) for step in one.steps)
        seen = one.before.seen
        if error.code in ("placement-conflict", "placement-in-use") and seen is not None:
            node: Node | None = Node(uuid, seen.name, seen.parent, seen.generation)
        else:
            node = self._placement.node(uuid)
        if isinstance(error, NameTaken) and (node is None or moving):
            raise name_taken(self._placement, self._host.hostname, self._host.wanted[uuid].name) or error
        if error.code == "placement-refused":
            raise error
        actual = None if node is None else self._look_into(node)
        again = self._difference(uuid, one.before, actual)
        self._keep([again.before])
        return again

    def _keep(self, records: Sequence[Record]) -> None:
        """Write down what is about to be written there."""
        self._ledger.keep(records)
        self._kept.update(record.uuid for record in records)
