"""At any moment each unit is in one place: lendable, lent, releasing, cleaning, quarantined, missing or withheld, and together they are
all that the hosts have, per class and host, whatever people and hosts do in whatever order."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.databases import sqlite_url
from tests.unit.engine.cloud import ADMIN, ALICE, Host, make_profile, t4, whole

from cantle.engine.device import list_devices, set_status
from cantle.engine.force import force_release
from cantle.engine.lease import create_lease, get_lease, release_lease
from cantle.engine.move import move_lease
from cantle.engine.results import accept_results
from cantle.engine.tally import count
from cantle.engine.work import current_work
from cantle.errors import CantleError
from cantle.model.alias import NO_ALIASES
from cantle.model.device import DeviceStatus
from cantle.model.lease import Lease, LeaseState
from cantle.store.database import Database
from cantle.wire.work import Cleaning, HandleResult, Outcome, Results

HOSTS = ("compute-1", "compute-2")
#: What each host has.
TOTALS = {"VGPU": 3, "PGPU": 1}
CLASS_OF = {"slice": "VGPU", "pair": "VGPU", "card": "PGPU"}
SIZE = {"slice": 1, "pair": 2, "card": 1}
SAYS = {
    Outcome.FAILED: ("releasing", "device-held"),
    Outcome.CLEANING: ("cleaning", None),
    Outcome.QUARANTINED: ("quarantined", "reset-failed"),
    Outcome.ABSENT: (None, None),
}


@dataclass
class Loan:
    """A lease as the model knows it: where it is, and the host and state of each of its units by uuid, those of hosts it has left too."""

    host: str
    kind: str
    given_back: bool = False
    units: dict[str, tuple[str, str]] = field(default_factory=dict)

    def of(self, state: str) -> list[str]:
        """Units in a state."""
        return [unit for unit, (_, its) in self.units.items() if its == state]

    def let_go(self) -> None:
        """What is lent is to be taken back."""
        self.units.update({unit: (self.units[unit][0], "releasing") for unit in self.of("lent")})


class Units(RuleBasedStateMachine):
    """Two hosts, each with a card in slices and one lent whole. The model knows in which state how many units of a class are."""

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="cantle-units-"))
        self.db = Database.open(sqlite_url(self.directory))
        make_profile(self.db, "slice")
        make_profile(self.db, "pair", [{"resources:VGPU": "2"}])
        make_profile(self.db, "card", [{"resources:PGPU": "1"}])
        self.hosts = {name: Host(self.db, name) for name in HOSTS}
        self.leases: dict[str, Loan] = {}
        #: By host and class: the card was pulled out; an operator has taken it out of service.
        self.gone: set[tuple[str, str]] = set()
        self.maintained: set[tuple[str, str]] = set()
        #: Units taken for free by force that their host has not reported anew.
        self.nameless = Counter[tuple[str, str]]()
        for name in HOSTS:
            self._report(name)

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.db.close()
            shutil.rmtree(self.directory)

    def _report(self, name: str) -> None:
        cards = {"VGPU": t4(TOTALS["VGPU"], host=name), "PGPU": whole(host=name)}
        there = [kind for kind in cards if (name, kind) not in self.gone]
        self.hosts[name].devices = [cards[kind] for kind in there]
        self.hosts[name].report()
        for kind in there:
            del self.nameless[name, kind]

    @rule(profile=st.sampled_from(sorted(SIZE)), name=st.sampled_from(HOSTS))
    def borrow(self, profile: str, name: str) -> None:
        kind = CLASS_OF[profile]
        with self._lent_to(name) as units:
            made, refusal = self._try(partial(create_lease, self.db, ALICE, profile_name=profile, hostname=name))
        assert refusal == ("no-capacity" if self._free(name, kind) < SIZE[profile] else None)
        if made is not None:
            self.leases[made.uuid] = Loan(name, kind, units=dict.fromkeys(units, (name, "lent")))

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), to=st.sampled_from(HOSTS))
    def move(self, data: st.DataObject, to: str) -> None:
        """To another host, which may have no room; the units of the one it leaves are still to be taken back."""
        uuid = data.draw(st.sampled_from(list(self.leases)))
        loan = self.leases[uuid]
        with self._lent_to(to) as units:
            moved, refusal = self._try(
                partial(move_lease, self.db, ALICE, uuid, to=to, stopped=True, aliases=NO_ALIASES)
            )
        if loan.given_back:
            assert refusal == "lease-over"
        elif loan.host == to:
            assert refusal == "lease-is-there"
        else:
            assert refusal == ("no-capacity" if self._free(to, loan.kind) < len(loan.of("lent")) else None)
        if moved is not None:
            loan.let_go()
            loan.host = to
            loan.units.update(dict.fromkeys(units, (to, "lent")))

    @rule(name=st.sampled_from(HOSTS))
    def make_ready(self, name: str) -> None:
        work = current_work(self.db, name)
        self._say(name, [HandleResult(one.uuid, Outcome.READY) for one in work.wanted])

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        uuid = data.draw(st.sampled_from(list(self.leases)))
        release_lease(self.db, ALICE, uuid)
        self.leases[uuid].given_back = True
        self.leases[uuid].let_go()

    @precondition(lambda self: any(loan.units for loan in self.leases.values()))
    @rule(data=st.data(), outcome=st.sampled_from(sorted(SAYS)))
    def take_back(self, data: st.DataObject, outcome: Outcome) -> None:
        """A host says how far it is with one unit, of those that are to be taken back, if any."""
        coming = [(loan, unit) for loan in self.leases.values() for unit in loan.units if unit not in loan.of("lent")]
        if not coming:
            return
        loan, unit = data.draw(st.sampled_from(coming))
        name, before = loan.units[unit]
        state, code = SAYS[outcome]
        cleaning = Cleaning("flr", "reset") if outcome is Outcome.ABSENT else None
        self._say(name, [HandleResult(unit, outcome, code, code and f"{unit}: {code}", cleaning)])
        if state is None:
            del loan.units[unit]
            self._report(name)
        elif (before, state) != ("quarantined", "cleaning"):  # a host that tries again is not through yet
            loan.units[unit] = (name, state)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), reason=st.sampled_from([None, "the host burnt down"]), reported=st.booleans())
    def force(self, data: st.DataObject, reason: str | None, reported: bool) -> None:
        uuid = data.draw(st.sampled_from(list(self.leases)))
        loan = self.leases[uuid]
        proved = all(state in ("cleaning", "quarantined") for _, state in loan.units.values())
        lease, refusal = self._try(partial(force_release, self.db, ADMIN, uuid, reason))
        assert refusal == (None if reason or proved else "units-may-be-held")
        if lease is None:
            return
        assert lease.state is LeaseState.RELEASED
        self.nameless.update((name, loan.kind) for name, _ in loan.units.values())
        loan.units.clear()
        loan.given_back = True
        for name in HOSTS if reported else ():
            self._report(name)

    @rule(name=st.sampled_from(HOSTS), kind=st.sampled_from(sorted(TOTALS)), gone=st.booleans())
    def pull(self, name: str, kind: str, gone: bool) -> None:
        """A card leaves, or comes back."""
        (self.gone.add if gone else self.gone.discard)((name, kind))
        self._report(name)

    @rule(name=st.sampled_from(HOSTS), kind=st.sampled_from(sorted(TOTALS)), status=st.sampled_from(DeviceStatus))
    def maintain(self, name: str, kind: str, status: DeviceStatus) -> None:
        """An operator takes a card out of service, or puts it back."""
        (card,) = list_devices(self.db, hostname=name, mode="mdev" if kind == "VGPU" else "passthrough")
        set_status(self.db, ADMIN, card.uuid, status)
        (self.maintained.add if status is DeviceStatus.MAINTAINING else self.maintained.discard)((name, kind))

    def _say(self, name: str, results: list[HandleResult]) -> None:
        generation = current_work(self.db, name).generation
        accept_results(self.db, name, Results(self.hosts[name].start, generation, tuple(results)))

    @contextmanager
    def _lent_to(self, name: str) -> Iterator[set[str]]:
        """Units that are wanted of a host after the block, and were not before."""
        before = {one.uuid for one in current_work(self.db, name).wanted}
        fresh: set[str] = set()
        yield fresh
        fresh.update({one.uuid for one in current_work(self.db, name).wanted} - before)

    def _try(self, call: Callable[[], Lease]) -> tuple[Lease | None, str | None]:
        """What it gives, or the code it is refused with."""
        try:
            return call(), None
        except CantleError as error:
            return None, error.code

    def _free(self, name: str, kind: str) -> int:
        return self._expected(name)[kind]["lendable"]

    def _expected(self, name: str) -> dict[str, Counter[str]]:
        found = {kind: Counter[str]() for kind in TOTALS}
        for loan in self.leases.values():
            found[loan.kind].update(state for host, state in loan.units.values() if host == name)
        for kind, total in TOTALS.items():
            out = "missing" if (name, kind) in self.gone else "withheld"
            served = (name, kind) not in self.gone | self.maintained
            free, nameless = total - sum(found[kind].values()), self.nameless[name, kind]
            found[kind][out] += nameless
            found[kind]["lendable" if served else out] += free - nameless
        return found

    @invariant()
    def each_unit_is_in_one_place_and_none_is_lost(self) -> None:
        if not hasattr(self, "hosts"):
            return
        for name in HOSTS:
            tallies = {one.resource_class: one for one in count(self.db, name)}
            for kind, states in self._expected(name).items():
                one = tallies[kind]
                assert one.inventory == TOTALS[kind]
                shown = {
                    state: getattr(one, state)
                    for state in ("lendable", "lent", "releasing", "cleaning", "quarantined", "missing", "withheld")
                }
                assert shown == {state: states[state] for state in shown}

    @invariant()
    def a_lease_is_as_its_units_are(self) -> None:
        for uuid, loan in getattr(self, "leases", {}).items():
            states = {state for _, state in loan.units.values()}
            state = get_lease(self.db, ALICE, uuid).state
            if not loan.given_back:
                assert state in (LeaseState.PENDING, LeaseState.ACTIVE)
            elif not states:
                assert state is LeaseState.RELEASED
            elif "quarantined" in states:
                assert state is LeaseState.QUARANTINED
            else:
                assert state is (LeaseState.CLEANING if states == {"cleaning"} else LeaseState.RELEASING)


TestUnits = Units.TestCase
TestUnits.settings = settings(max_examples=15, stateful_step_count=30, deadline=None)
