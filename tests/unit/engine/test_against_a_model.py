"""Anything in any order: what the engine does is what a small model of it says, and what must always hold does.

The model knows states and counts; which unit is lent is the engine's choice, and only that it is lent once is checked.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule
from sqlalchemy import select, update
from tests.databases import sqlite_url
from tests.unit.engine.cloud import ADMIN, NOVA_FOR_ADMIN, Host, make_profile, t4

from cantle.engine.arq import create_arqs, delete_arqs, delete_arqs_of_instance, list_arqs
from cantle.engine.bind import Bind, Unbind, bind, unbind
from cantle.engine.capacity import list_capacity
from cantle.engine.intake import accept_report
from cantle.engine.lease import create_lease, get_lease, release_lease
from cantle.engine.results import accept_results
from cantle.engine.work import current_work
from cantle.errors import CantleError
from cantle.keeper import deadline
from cantle.model.arq import BINDABLE, TRANSITIONS, ArqState
from cantle.model.lease import LeaseState
from cantle.store.database import Database
from cantle.store.tables import arqs, claims
from cantle.store.types import database_now
from cantle.wire.inventory import InventoryReport
from cantle.wire.work import Outcome, Results

HOSTS = ("compute-1", "compute-2")
INSTANCES = tuple(str(uuid4()) for _ in range(3))
HELD = (ArqState.BIND_STARTED, ArqState.BOUND)


@dataclass
class Expected:
    """What the model knows of one ARQ."""

    state: ArqState = ArqState.INITIAL
    host: str | None = None
    instance: str | None = None
    lease: str | None = None


class Cloud(RuleBasedStateMachine):
    """Two hosts, three instances, and everybody who may touch them."""

    requests = Bundle("requests")
    leases = Bundle("leases")
    words = Bundle("words")

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="cantle-model-"))
        self.db = Database.open(sqlite_url(self.directory))
        make_profile(self.db, "one")
        make_profile(self.db, "two", [{"resources:VGPU": "2"}])
        self.hosts = {name: Host(self.db, name) for name in HOSTS}
        self.totals: dict[str, int] = {}
        self.returning: Counter[str] = Counter()
        self.arqs: dict[str, Expected] = {}
        self.seen: dict[str, ArqState] = {}
        for name in HOSTS:
            self.report(name, 2)
        self.providers = {one.hostname: one.rp_uuid for one in list_capacity(self.db)}

    def teardown(self) -> None:
        if hasattr(self, "db"):
            self.db.close()
            shutil.rmtree(self.directory)

    # Clients.

    @rule(target=requests, profile=st.sampled_from(["one", "two"]))
    def create(self, profile: str):  # type: ignore[no-untyped-def]
        made = [arq.uuid for arq in create_arqs(self.db, NOVA_FOR_ADMIN, profile)]
        self.arqs.update((uuid, Expected()) for uuid in made)
        return multiple(*made)

    @rule(
        wanted=st.lists(requests, min_size=1, max_size=2, unique=True),
        name=st.sampled_from(HOSTS),
        instance=st.sampled_from(INSTANCES),
    )
    def bind(self, wanted: list[str], name: str, instance: str) -> None:
        binds = [Bind(uuid, name, self.providers[name], instance) for uuid in wanted]
        expected = self._may_bind(wanted, name, instance)
        if expected is None:
            for uuid in wanted:
                if self.arqs[uuid].state in BINDABLE:
                    self.arqs[uuid] = Expected(ArqState.BIND_STARTED, name, instance)
        assert self._code(lambda: bind(self.db, NOVA_FOR_ADMIN, binds)) == expected

    def _may_bind(self, wanted: list[str], name: str, instance: str) -> str | None:
        todo = []
        for uuid in wanted:
            one = self.arqs.get(uuid)
            if one is None:
                return "arq-not-found"
            if one.state in BINDABLE:
                todo.append(uuid)
            elif not (one.state in HELD and (one.host, one.instance) == (name, instance)):
                return "arq-not-bindable"
        if todo and any(one.instance == instance and uuid not in todo for uuid, one in self.arqs.items()):
            return "instance-has-arqs"
        return "no-free-handle" if len(todo) > self._free(name) else None

    @rule(uuid=requests)
    def unbind(self, uuid: str) -> None:
        one = self.arqs.get(uuid)
        assert self._code(lambda: unbind(self.db, NOVA_FOR_ADMIN, [Unbind(uuid)])) == (None if one else "arq-not-found")
        if one is not None:
            self._part(one)
            self.arqs[uuid] = Expected(ArqState.UNBOUND)

    @rule(wanted=st.lists(requests, min_size=1, max_size=2, unique=True))
    def delete(self, wanted: list[str]) -> None:
        missing = [uuid for uuid in wanted if uuid not in self.arqs]
        assert self._code(lambda: delete_arqs(self.db, NOVA_FOR_ADMIN, wanted)) == (
            "arq-not-found" if missing else None
        )
        for uuid in set(wanted) - set(missing):
            self._part(self.arqs.pop(uuid))

    @rule(instance=st.sampled_from(INSTANCES))
    def delete_of_instance(self, instance: str) -> None:
        delete_arqs_of_instance(self.db, NOVA_FOR_ADMIN, instance)
        for uuid in [uuid for uuid, one in self.arqs.items() if one.instance == instance]:
            self._part(self.arqs.pop(uuid))

    @rule(target=leases, profile=st.sampled_from(["one", "two"]), name=st.sampled_from(HOSTS))
    def lend(self, profile: str, name: str):  # type: ignore[no-untyped-def]
        if self._free(name) < (1 if profile == "one" else 2):
            assert (
                self._code(lambda: create_lease(self.db, ADMIN, profile_name=profile, hostname=name)) == "no-capacity"
            )
            return multiple()
        lease = create_lease(self.db, ADMIN, profile_name=profile, hostname=name)
        for arq in lease.arqs:
            self.arqs[arq.uuid] = Expected(ArqState.BIND_STARTED, name, None, lease.uuid)
        return lease.uuid

    @rule(uuid=consumes(leases))
    def give_back(self, uuid: str) -> None:
        for arq in [arq for arq, one in self.arqs.items() if one.lease == uuid]:
            self._part(self.arqs.pop(arq))
        assert release_lease(self.db, ADMIN, uuid).state in (LeaseState.RELEASING, LeaseState.RELEASED)

    # Hosts.

    @rule(name=st.sampled_from(HOSTS), total=st.integers(0, 4))
    def report(self, name: str, total: int) -> None:
        host = self.hosts[name]
        host.report(t4(total, host=name))
        self.totals[name] = total
        capacity = next(one for one in list_capacity(self.db) if one.hostname == name)
        assert capacity.free == max(0, total - capacity.used), "a report read in full leaves out nothing that is free"

    @rule(name=st.sampled_from(HOSTS))
    def miss(self, name: str) -> None:
        """One report without the card: nothing is lost by it."""
        before = next(one for one in list_capacity(self.db) if one.hostname == name)
        host = self.hosts[name]
        accept_report(self.db, name, InventoryReport(host.start, "none", ()))
        after = next(one for one in list_capacity(self.db) if one.hostname == name)
        assert (after.total, after.used, after.free) == (before.total, before.used, 0)
        self.report(name, self.totals[name])

    @rule(name=st.sampled_from(HOSTS), refusing=st.booleans())
    def obey(self, name: str, refusing: bool) -> None:
        host = self.hosts[name]
        host.refusing = {"*": "refused"} if refusing else {}
        host.obey()
        self._settle(name, ready=not refusing)

    @rule(target=words, name=st.sampled_from(HOSTS), outcome=st.sampled_from(list(Outcome)))
    def dawdle(self, name: str, outcome: Outcome) -> tuple[str, Results]:
        """Words that arrive much later, or twice."""
        host = self.hosts[name]
        host.refusing = {"*": "late"} if outcome is Outcome.FAILED else {}
        return name, host.results(current_work(self.db, name))

    @rule(late=words)
    def hear(self, late: tuple[str, Results]) -> None:
        """Late words change nothing that the host would not say now: units asked for or given up since are not theirs."""
        name, results = late
        current = current_work(self.db, name)
        if results.agent_start != self.hosts[name].start:
            assert self._code(lambda: accept_results(self.db, name, results)) == "agent-fenced"
        elif results.generation == current.generation:
            accept_results(self.db, name, results)
            failed = any(one.outcome is Outcome.FAILED for one in results.results)
            self._settle(name, ready=not failed)
        elif results.generation < current.generation:
            before = current_work(self.db, name)
            unchanged = {one.uuid for one in before.wanted}
            accept_results(self.db, name, results)
            assert {one.uuid for one in current_work(self.db, name).wanted} <= unchanged
            self._learn(name)

    @rule(name=st.sampled_from(HOSTS))
    def restart(self, name: str) -> None:
        self.hosts[name].restart()
        self.report(name, self.totals[name])

    @rule()
    def deadlines_pass(self) -> None:
        with self.db.write() as connection:
            connection.execute(update(arqs).where(arqs.c.deadline.is_not(None)).values(deadline=database_now(-1)))
        started = [one for one in self.arqs.values() if one.state is ArqState.BIND_STARTED]
        assert deadline.sweep(self.db) == len(started)
        for one in started:
            one.state = ArqState.BIND_FAILED
            self.returning[str(one.host)] += 1

    # What the model does.

    def _part(self, one: Expected) -> None:
        if one.state in HELD:
            self.returning[str(one.host)] += 1

    def _settle(self, name: str, *, ready: bool) -> None:
        """All of a host's units are as wanted, or all refuse."""
        if ready:
            self.returning[name] = 0
        for one in self.arqs.values():
            if one.host == name and one.state is ArqState.BIND_STARTED:
                one.state = ArqState.BOUND if ready else ArqState.BIND_FAILED
                self.returning[name] += 0 if ready else 1
        self._learn(name, only=(ArqState.UNBOUND, ArqState.UNBIND_FAILED))

    def _learn(self, name: str, only: tuple[ArqState, ...] = tuple(ArqState)) -> None:
        """Take over what the model cannot know: to which ARQ a unit that is being taken back belonged. The move must be a legal one."""
        for arq in list_arqs(self.db, ADMIN):
            one = self.arqs[arq.uuid]
            if arq.state is not one.state and one.state in only:
                assert arq.state in TRANSITIONS[one.state]
                one.state = arq.state
        self.returning[name] = len(current_work(self.db, name).unwanted)

    def _free(self, name: str) -> int:
        return next(one.free for one in list_capacity(self.db) if one.hostname == name)

    @staticmethod
    def _code(call) -> str | None:  # type: ignore[no-untyped-def]
        try:
            call()
        except CantleError as error:
            return error.code
        return None

    # What must always hold.

    @invariant()
    def states_are_the_models(self) -> None:
        found = {arq.uuid: (arq.state, arq.instance_uuid, arq.lease_uuid) for arq in list_arqs(self.db, ADMIN)}
        assert found == {uuid: (one.state, one.instance, one.lease) for uuid, one in self.arqs.items()}

    @invariant()
    def states_move_as_the_table_says(self) -> None:
        for uuid, one in self.arqs.items():
            before = self.seen.get(uuid, one.state)
            assert one.state is before or one.state in TRANSITIONS[before]
        self.seen = {uuid: one.state for uuid, one in self.arqs.items()}

    @invariant()
    def no_unit_is_lent_twice_or_lost(self) -> None:
        with self.db.read() as connection:
            rows = connection.execute(select(claims.c.attach_handle_id, claims.c.arq_id, claims.c.wanted)).all()
        assert len({row.attach_handle_id for row in rows}) == len(rows)
        for name in HOSTS:
            work = current_work(self.db, name)
            assert len(work.wanted) == sum(one.host == name and one.state in HELD for one in self.arqs.values())
            assert len(work.unwanted) == self.returning[name]
        holders = [row.arq_id for row in rows if row.wanted]
        assert len(set(holders)) == len(holders)

    @invariant()
    def nothing_is_offered_that_cannot_be_delivered(self) -> None:
        for one in list_capacity(self.db):
            assert one.free <= max(0, one.total - one.used)

    @invariant()
    def only_what_is_bound_shows_a_unit(self) -> None:
        for arq in list_arqs(self.db, ADMIN):
            assert (arq.attach_handle_uuid is not None) == (arq.state is ArqState.BOUND)

    @invariant()
    def leases_say_what_their_requests_say(self) -> None:
        for uuid in {one.lease for one in self.arqs.values() if one.lease}:
            states = {one.state for one in self.arqs.values() if one.lease == uuid}
            expected = (
                LeaseState.FAILED
                if ArqState.BIND_FAILED in states
                else LeaseState.ACTIVE
                if states == {ArqState.BOUND}
                else LeaseState.PENDING
            )
            assert get_lease(self.db, ADMIN, uuid).state is expected


TestCloud = Cloud.TestCase
TestCloud.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
