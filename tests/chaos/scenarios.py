"""What is asked for while processes die, and when it has come about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

from sqlalchemy import update
from tests.chaos.client import Client, Refused, until
from tests.chaos.publishing import PUBLISHING
from tests.chaos.roles import HOST, M40, OUTLETS, T4
from tests.chaos.scenario import OFFERED, End, Facts, Scenario, nothing
from tests.chaos.wishes import unwish, wish

from cantle.store.database import Database
from cantle.store.tables import arqs, leases
from cantle.store.types import database_now

ARQS = "/v2/accelerator_requests"
SLICE = [{"resources:VGPU": "1"}]
BOTH = [{"resources:VGPU": "1"}, {"resources:PGPU": "1"}]


def _profiles(client: Client, facts: Facts) -> Facts:
    """Makes profiles, unless an earlier try has."""
    for name, groups in (("slice", SLICE), ("both", BOTH)):
        try:
            client.ask("POST", "/v2/device_profiles", [{"name": name, "groups": groups}])
        except Refused as refused:
            if refused.status != 409:
                raise
    return facts


def _made(client: Client, profile: str) -> list[dict[str, Any]]:
    """New ARQs. A lost answer leaves some behind that nobody knows; they hold nothing and are reaped."""
    made: list[dict[str, Any]] = client.ask("POST", ARQS, {"device_profile_name": profile})["arqs"]
    return made


def _providers(client: Client) -> dict[str, str]:
    return {row["resource_class"]: row["rp_uuid"] for row in client.ask("GET", "/v1/capacity")["capacity"]}


def _bind(profile: str) -> Callable[[Client, Facts], Facts]:
    def act(client: Client, facts: Facts) -> Facts:
        providers, instance = _providers(client), str(uuid4())
        made = _made(client, profile)
        classes = ["VGPU", "PGPU"]
        body = {
            arq["uuid"]: [
                {"op": "add", "path": "/hostname", "value": HOST},
                {"op": "add", "path": "/device_rp_uuid", "value": providers[classes[arq["device_profile_group_id"]]]},
                {"op": "add", "path": "/instance_uuid", "value": instance},
            ]
            for arq in made
        }
        client.ask("PATCH", ARQS, body)
        return {**facts, "instance": instance, "arqs": [arq["uuid"] for arq in made]}

    return act


def _unbind(client: Client, facts: Facts) -> Facts:
    names = ("/hostname", "/device_rp_uuid", "/instance_uuid")
    client.ask("PATCH", ARQS, {uuid: [{"op": "remove", "path": path} for path in names] for uuid in facts["arqs"]})
    return facts


def _delete(client: Client, facts: Facts) -> Facts:
    client.ask("DELETE", f"{ARQS}?instance={facts['instance']}")
    return facts


def _rebind(client: Client, facts: Facts) -> Facts:
    """Lets go and takes at once, for another instance: units are still being taken back meanwhile."""
    _delete(client, facts)
    return _bind("slice")(client, facts)


def _give_up(client: Client, facts: Facts) -> Facts:
    """As Nova does when it hears of a failure: it deletes what it had asked for."""
    facts = _bind("slice")(client, facts)
    until(lambda: "failed" in client.statuses(facts["arqs"][0]), "Nova hears of the failure")
    return _delete(client, facts)


def _lend(client: Client, facts: Facts) -> Facts:
    workload = f"box-{uuid4()}"

    def once() -> Any:
        try:
            found = [one for one in client.once("GET", "/v1/leases")["leases"] if one["workload"] == workload]
            return found[0] if found else client.once("POST", "/v1/leases", {"profile": "both", "workload": workload})
        except OSError:
            return None

    lease = until(once, "the lease is made")
    return {**facts, "lease": lease["uuid"], "arqs": [arq["uuid"] for arq in lease["arqs"]]}


def _release(client: Client, facts: Facts) -> Facts:
    client.ask("POST", f"/v1/leases/{facts['lease']}/release")
    return facts


def _time_passes(client: Client, column: Any) -> None:
    """What is due in the future is due now."""

    def once() -> bool:
        try:
            database = Database.open(client.place.database, check=False, outlets=OUTLETS)
            with database.write() as connection:
                row = connection.execute(update(column.table).values({column.name: database_now(-1)}))
            database.close()
        except Exception:  # noqa: BLE001 - the database may be cut off just now; it is tried until it is not
            return False
        return row.rowcount > 0

    until(once, "time passes")


def _expire(client: Client, facts: Facts) -> Facts:
    _time_passes(client, leases.c.expires_at)
    return facts


def _overdue(client: Client, facts: Facts) -> Facts:
    """A bind on a host whose agent does not run."""
    facts = _bind("both")(client, facts)
    _time_passes(client, arqs.c.deadline)
    until(lambda: all(map(client.statuses, facts["arqs"])), "Nova hears that the deadline is over")
    return facts


_BOUND = frozenset({"completed"})
_FAILED = frozenset({"failed"})
_ARQ_BOUND = frozenset({"arq.bound"})
_ARQ_FAILED = frozenset({"arq.failed"})
_LENT = frozenset({"lease.active", "arq.bound"})
_WHOLE = {T4: 1, M40: 1}

SCENARIOS = {
    one.name: one
    for one in (
        Scenario("report", None, nothing, End({}, offered=OFFERED)),
        Scenario("idle", "report", _profiles, End({}, offered=OFFERED)),
        Scenario("bind", "idle", _bind("both"), End({"Bound": 2}, 2, nova=_BOUND, told=_ARQ_BOUND)),
        Scenario("unbind", "bind", _unbind, End({"Unbound": 2})),
        Scenario("delete", "bind", _delete, End({})),
        Scenario("rebind", "bind", _rebind, End({"Bound": 1}, 1, nova=_BOUND, told=_ARQ_BOUND)),
        Scenario("failure", "idle", _give_up, End({}, nova=_FAILED, told=_ARQ_FAILED), refusing=True),
        Scenario("overdue", "idle", _overdue, End({"BindFailed": 2}, nova=_FAILED, told=_ARQ_FAILED), agent_away=True),
        Scenario("lease", "idle", _lend, End({"Bound": 2}, 2, {"active": 1}, told=_LENT)),
        Scenario("release", "lease", _release, End({}, leases={"released": 1}, told=frozenset({"lease.released"}))),
        Scenario(
            "expiry",
            "lease",
            _expire,
            End({}, leases={"released": 1}, told=frozenset({"lease.expired", "lease.released"})),
        ),
        Scenario("intent", "idle", wish, End({}, offered=_WHOLE)),
        Scenario("no-intent", "intent", unwish, End({}, offered=OFFERED)),
        *PUBLISHING,
    )
}

#: Preparations: not worth killing anybody at.
PREPARE_ONLY = frozenset({"idle", "publish-pair"})
