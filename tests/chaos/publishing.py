"""Operations of which Placement is told, up to what it must have at their end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import msgspec
from sqlalchemy import update
from tests.chaos import placement, published
from tests.chaos.client import Client, until
from tests.chaos.published import POOL, Tree
from tests.chaos.roles import M40, OUTLETS, T4
from tests.chaos.scenario import OFFERED, End, Facts, Scenario, nothing
from tests.chaos.wishes import wish

from cantle import simulate
from cantle.simulate.description import Description
from cantle.store.database import Database
from cantle.store.provider_tables import placement_hosts, placement_providers
from cantle.store.types import database_now

#: A second card like the other one.
TWIN = "0000:87:00.0"
#: Of an operator who takes a device out of service.
_VERSION = {"OpenStack-API-Version": "accelerator 2.3"}


def host(scenario: str) -> Description:
    """The simulated host of a scenario that begins with nothing."""
    made = simulate.load("t4")
    if scenario != "publish-pair":
        return made
    card = next(one for one in made.functions if one.address == M40)
    twin = msgspec.structs.replace(card, address=TWIN, iommu_group=38)
    return msgspec.structs.replace(made, functions=(*made.functions, twin))


def _disable(client: Client, facts: Facts) -> Facts:
    client.ask("POST", f"/v2/devices/{_device(client)}/disable", headers=_VERSION)
    return facts


def _enable(client: Client, facts: Facts) -> Facts:
    client.ask("POST", f"/v2/devices/{_device(client)}/enable", headers=_VERSION)
    return facts


def _device(client: Client) -> str:
    """The uuid of the sliced card."""
    found = client.ask("GET", "/v2/devices")["devices"]
    return next(str(one["uuid"]) for one in found if "T4" in one["model"])


def _retire(client: Client, facts: Facts) -> Facts:
    """Makes another thing of a card while an instance still has an allocation of it; the instance ends later."""
    place = client.place
    instance = str(uuid4())
    card = published.provider(place, T4)
    body = {
        "allocations": {card: {"resources": {"VGPU": 1}}},
        **{"project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"},
    }
    placement.look(place.placement_port, "PUT", f"/allocations/{instance}", body)
    wish(client, facts)
    retiring = {"VGPU": (1, 1), "PGPU": (1, 1)}
    until(lambda: published.amounts_of(place, T4) == retiring, "what is allocated stays, and nothing else may be taken")
    placement.look(place.placement_port, "DELETE", f"/allocations/{instance}")
    return facts


def _unplug(client: Client, facts: Facts) -> Facts:
    """Pulls a card out, and lets its grace pass."""
    place = client.place
    simulate.SimulatedRoot(place.tree).unplug(M40)
    until(lambda: published.amounts_of(place, M40) == {"PGPU": (1, 1)}, "a missing card is reserved")
    _at_a_look(client, lambda: published.provider(place, M40) is None, "a card that stays away is taken away")
    return facts


def _pool(client: Client, facts: Facts) -> Facts:
    """The keeper was started with another configuration; what is published changes at the next look."""
    place = client.place
    _at_a_look(client, lambda: published.provider(place, POOL) and not published.provider(place, M40), "a pool is made")
    return facts


def _unpool(client: Client, facts: Facts) -> Facts:
    place = client.place
    _at_a_look(client, lambda: published.provider(place, M40) and not published.provider(place, POOL), "the pool goes")
    return facts


def _at_a_look(client: Client, there: Callable[[], Any], what: str) -> None:
    """Wait for something that comes about when a host is looked at, and lets that be now and then."""
    looked = 0.0

    def once() -> Any:
        nonlocal looked
        if time.monotonic() > looked + 1.0:
            looked = time.monotonic()
            _time_passes(client)
        try:
            return there()
        except OSError:  # Placement is starting still
            return None

    until(once, what)


def _time_passes(client: Client) -> None:
    try:
        database = Database.open(client.place.database, check=False, outlets=OUTLETS)
        with database.write() as connection:
            since = placement_providers.c.missing_since
            connection.execute(
                update(placement_providers).where(since.is_not(None)).values(missing_since=database_now(-90000))
            )
            connection.execute(update(placement_hosts).values(due_at=database_now(-1)))
        database.close()
    except Exception:  # noqa: BLE001 - the database may be cut off just now; it is tried until it is not
        return


def _end(there: Tree, offered: Mapping[str, int] = OFFERED) -> End:
    return End({}, offered=offered, published=there)


_SLICED = {"VGPU": (8, 0)}
_ONE = {"PGPU": (1, 0)}
_TWO = {"PGPU": (2, 0)}
_PAIR = {**OFFERED, TWIN: 1}

PUBLISHING = (
    Scenario("publish", None, nothing, _end({T4: _SLICED, M40: _ONE})),
    Scenario("reserve", "publish", _disable, _end({T4: {"VGPU": (8, 8)}, M40: _ONE}, {T4: 0, M40: 1})),
    Scenario("free", "reserve", _enable, _end({T4: _SLICED, M40: _ONE})),
    Scenario("change", "publish", wish, _end({T4: _ONE, M40: _ONE}, {T4: 1, M40: 1})),
    Scenario("retire", "publish", _retire, _end({T4: _ONE, M40: _ONE}, {T4: 1, M40: 1})),
    Scenario("vanish", "publish", _unplug, _end({T4: _SLICED}, {T4: 8, M40: 0})),
    Scenario("publish-pair", None, nothing, _end({T4: _SLICED, M40: _ONE, TWIN: _ONE}, _PAIR)),
    Scenario("pool", "publish-pair", _pool, _end({T4: _SLICED, POOL: _TWO}, _PAIR), pooled=True, starting=True),
    Scenario("unpool", "pool", _unpool, _end({T4: _SLICED, M40: _ONE, TWIN: _ONE}, _PAIR), starting=True),
)
