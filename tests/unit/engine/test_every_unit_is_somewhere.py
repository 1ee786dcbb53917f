"""At any moment each unit is in one place: lendable, lent, releasing, cleaning, quarantined or missing, and together they are all that
the hosts have, per class and host, whatever people and hosts do in whatever order."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.databases import sqlite_url
from tests.unit.engine.cloud import ADMIN, ALICE, Host, make_profile, t4, whole

from cantle.engine.force import force_release
from cantle.engine.lease import create_lease, get_lease, release_lease
from cantle.engine.results import accept_results
from cantle.engine.tally import count
from cantle.engine.work import current_work
from cantle.errors import CantleError
from cantle.model.lease import LeaseState
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
        self.gone: dict[str, bool] = dict.fromkeys(HOSTS, False)
        #: By lease: host, class, and the state of each of its units by uuid.
        self.leases: dict[str, tuple[str, str, dict[str, str]]] = {}
        for name in HOSTS:
            self._report(name)

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.db.close()
            shutil.rmtree(self.directory)

    def _report(self, name: str) -> None:
        cards = [t4(TOTALS["VGPU"], host=name)]
        if not self.gone[name]:
            cards.append(whole(host=name))
        self.hosts[name].report(*cards)

    @rule(profile=st.sampled_from(sorted(SIZE)), name=st.sampled_from(HOSTS))
    def borrow(self, profile: str, name: str) -> None:
        kind = CLASS_OF[profile]
        free = self._expected(name)[kind]["lendable"]
        before = {one.uuid for one in current_work(self.db, name).wanted}
        refusal: str | None = None
        try:
            made = create_lease(self.db, ALICE, profile_name=profile, hostname=name)
        except CantleError as error:
            refusal = error.code
        assert refusal == ("no-capacity" if free < SIZE[profile] else None)
        if refusal:
            return
        units = {one.uuid for one in current_work(self.db, name).wanted} - before
        self.leases[made.uuid] = (name, kind, dict.fromkeys(units, "lent"))

    @rule(name=st.sampled_from(HOSTS))
    def make_ready(self, name: str) -> None:
        work = current_work(self.db, name)
        self._say(name, [HandleResult(one.uuid, Outcome.READY) for one in work.wanted])

    @precondition(lambda self: self.leases)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        uuid = data.draw(st.sampled_from(list(self.leases)))
        release_lease(self.db, ALICE, uuid)
        units = self.leases[uuid][2]
        units.update({unit: "releasing" for unit, state in units.items() if state == "lent"})

    @precondition(lambda self: any(state != "lent" for _, _, units in self.leases.values() for state in units.values()))
    @rule(data=st.data(), outcome=st.sampled_from(sorted(SAYS)))
    def take_back(self, data: st.DataObject, outcome: Outcome) -> None:
        """A host says how far it is with one unit."""
        coming = [
            (uuid, unit)
            for uuid, (_, _, units) in self.leases.items()
            for unit, state in units.items()
            if state != "lent"
        ]
        uuid, unit = data.draw(st.sampled_from(coming))
        name, _, units = self.leases[uuid]
        state, code = SAYS[outcome]
        cleaning = Cleaning("flr", "reset") if outcome is Outcome.ABSENT else None
        self._say(name, [HandleResult(unit, outcome, code, code and f"{unit}: {code}", cleaning)])
        if state is None:
            del units[unit]
            self._report(name)
        elif (units[unit], state) != ("quarantined", "cleaning"):  # a host that tries again is not through yet
            units[unit] = state

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), reason=st.sampled_from([None, "the host burnt down"]))
    def force(self, data: st.DataObject, reason: str | None) -> None:
        uuid = data.draw(st.sampled_from(list(self.leases)))
        name, _, units = self.leases[uuid]
        proved = all(state in ("cleaning", "quarantined") for state in units.values())
        refusal: str | None = None
        try:
            lease = force_release(self.db, ADMIN, uuid, reason)
        except CantleError as error:
            refusal = error.code
        assert refusal == (None if reason or proved else "units-may-be-held")
        if refusal:
            return
        assert lease.state is LeaseState.RELEASED
        units.clear()
        self._report(name)

    @rule(name=st.sampled_from(HOSTS), gone=st.booleans())
    def pull(self, name: str, gone: bool) -> None:
        """The card that is lent whole leaves, or comes back."""
        self.gone[name] = gone
        self._report(name)

    def _say(self, name: str, results: list[HandleResult]) -> None:
        generation = current_work(self.db, name).generation
        accept_results(self.db, name, Results(self.hosts[name].start, generation, tuple(results)))

    def _expected(self, name: str) -> dict[str, Counter[str]]:
        found = {kind: Counter[str]() for kind in TOTALS}
        for host, kind, units in self.leases.values():
            if host == name:
                found[kind].update(units.values())
        for kind, total in TOTALS.items():
            free = "missing" if kind == "PGPU" and self.gone[name] else "lendable"
            found[kind][free] += total - sum(found[kind].values())
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
        for uuid, (_, _, units) in getattr(self, "leases", {}).items():
            states = set(units.values())
            state = get_lease(self.db, ALICE, uuid).state
            if not states:
                assert state is LeaseState.RELEASED
            elif "lent" in states:
                assert state in (LeaseState.PENDING, LeaseState.ACTIVE)
            elif "quarantined" in states:
                assert state is LeaseState.QUARANTINED
            else:
                assert state is (LeaseState.CLEANING if states == {"cleaning"} else LeaseState.RELEASING)


TestUnits = Units.TestCase
TestUnits.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
