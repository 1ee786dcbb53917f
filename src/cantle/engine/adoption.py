"""Take over from a Cyborg what its instances have: device profiles, and the requests that are bound.

A request keeps its uuid, instance and project, and a mediated device its uuid, so that Nova finds after the change what it knew before.
What was not bound is not taken over: Nova makes it anew.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from cantle.engine import audit
from cantle.engine.clock import now
from cantle.errors import BadRequest
from cantle.model import uuids
from cantle.model.arq import ArqState
from cantle.model.attach_handle import AttachType
from cantle.model.audit import UNIT_LENT, Thing
from cantle.model.host import same_host
from cantle.model.identity import Identity
from cantle.model.profile import DeviceProfile, Unit, check_groups, check_name
from cantle.model.profile import units as asked_for
from cantle.store import adoption as store
from cantle.store import arq, profile
from cantle.store.cyborg import Cyborg, CyborgProfile, CyborgRequest
from cantle.store.database import host_topic, wake
from cantle.store.types import Record

#: Who lends what was lent before.
CYBORG = Identity("cyborg", None)

_NO_DEVICE = "its provider, {}, is no device's that is offered here"
_PCI = ("domain", "bus", "device", "function")


@dataclass(frozen=True, slots=True)
class TakenProfile:
    """A profile of Cyborg's that is not ours yet.

    :param made: what becomes of it; None if it cannot be kept.
    :param why_not: in words.
    """

    theirs: CyborgProfile
    made: dict[str, Any] | None
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class HeldUnit:
    """A unit that an instance has.

    :param id: its number; None for a mediated device that the agent does not name, since it takes it for a stranger's.
    :param uuid: what it is called from now on: a mediated device by its own uuid.
    """

    id: int | None
    uuid: str
    key: str
    attach_type: str
    attach_info: Mapping[str, str]
    deployable_id: int
    resource_class: str
    device: str


@dataclass(frozen=True, slots=True)
class TakenRequest:
    """A request of Cyborg's that is not ours yet.

    :param unit: the one its instance has; None if it cannot be kept.
    """

    theirs: CyborgRequest
    unit: HeldUnit | None
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class Former:
    """A provider that was Cyborg's.

    :param deployable_id: number of our deployable.
    :param consumers: who has an allocation of it in Placement. An instance that has none is gone, and what Cyborg still has of it is a
        leak, or older than its end here.
    """

    deployable_id: int
    consumers: Collection[str]


def profiles(connection: Connection, cyborg: Cyborg) -> list[TakenProfile]:
    """Of Cyborg's profiles, those of whose name we have none yet. Reads only."""
    names, numbers = [one.name for one in cyborg.profiles], [one.uuid for one in cyborg.profiles]
    standing = profile.with_use(connection, names, numbers) if names else []
    named = {row.name: row for row in standing}
    used = {row.uuid for row in standing}
    found = []
    for one in cyborg.profiles:
        row = named.get(one.name)
        if row is None:
            found.append(_profile(one, used))
        elif row.is_flavor:
            found.append(TakenProfile(one, None, f"a flavor of ours has the name {one.name}"))
    return found


def _profile(one: CyborgProfile, used: set[str]) -> TakenProfile:
    uuid = uuids.canonical(one.uuid)
    try:
        name, groups = check_name(one.name), check_groups(one.groups)
    except BadRequest as error:
        return TakenProfile(one, None, error.message)
    fresh = uuids.new() if uuid is None or uuid in used else uuid
    values = {"uuid": fresh, "name": name, "groups": groups, "description": one.description, "created_at": now()}
    return TakenProfile(one, values)


def requests(
    connection: Connection, host_id: int, hostname: str, cyborg: Cyborg, formers: Mapping[str, Former]
) -> list[TakenRequest]:
    """Of Cyborg's requests on a host, those that are not ours yet. Reads only.

    :param formers: by uuid of the provider.
    """
    theirs = [one for one in cyborg.requests if _is_on(one, hostname, cyborg, formers)]
    ours = store.known(connection, [one.uuid for one in theirs]) if theirs else set[str]()
    host = _Units(store.units(connection, host_id), store.offers(connection, host_id))
    return [_request(one, host, formers) for one in theirs if one.uuid not in ours]


def take(
    connection: Connection,
    host_id: int,
    hostname: str,
    some_profiles: Sequence[TakenProfile],
    some_requests: Sequence[TakenRequest],
) -> list[TakenRequest]:
    """Make ours what `profiles` and `requests` found; the host is locked. The requests again, with those that failed for their profile."""
    for one in some_profiles:
        if one.made is not None:
            classes = sorted({unit.resource_class for unit in asked_for(one.made["groups"])})
            profile.add(connection, one.made, classes)
            facts = {"name": one.made["name"], "uuid": one.made["uuid"]}
            audit.record(connection, CYBORG, "profile.create", Thing(facts=facts))
    by_name = {name: profile.by_name(connection, name) for name in {one.theirs.profile_name for one in some_requests}}
    judged = [_with_profile(one, by_name[one.theirs.profile_name]) for one in some_requests]
    kept = [(one, one.unit) for one in judged if one.unit is not None]
    if kept:
        moment = now()
        rows = [_row(one, unit, hostname, by_name[one.theirs.profile_name]) for one, unit in kept]
        numbers = arq.add(connection, rows)
        handles = _handles(connection, [unit for _one, unit in kept], moment)
        loans = [
            {
                "attach_handle_id": handles[unit.uuid],
                "deployable_id": unit.deployable_id,
                "arq_id": number,
                "project_id": one.theirs.project_id,
                "lent_by": CYBORG.user_id,
            }
            for (one, unit), number in zip(kept, numbers, strict=True)
        ]
        store.lend(connection, host_id, loans, moment)
        audit.record(connection, CYBORG, UNIT_LENT, *(_thing(one, unit, hostname) for one, unit in kept))
        wake(connection, host_topic(hostname))
    return judged


def _is_on(one: CyborgRequest, hostname: str, cyborg: Cyborg, formers: Mapping[str, Former]) -> bool:
    if one.rp_uuid in formers:
        return True
    place = cyborg.places.get(one.rp_uuid or "")
    theirs = place.hostname if place is not None else one.hostname
    return theirs is not None and same_host(theirs, hostname)


def _request(one: CyborgRequest, host: _Units, formers: Mapping[str, Former]) -> TakenRequest:
    instance, uuid, unit_uuid = (uuids.canonical(word) for word in (one.instance_uuid, one.uuid, one.handle_uuid))
    if one.state != ArqState.BOUND or one.handle_uuid is None:
        return TakenRequest(one, None, why_not=f"it is {one.state}, and only what is bound is taken over")
    if uuid is None or instance is None or unit_uuid is None:
        return TakenRequest(one, None, why_not=f"its instance, {one.instance_uuid!r}, or its unit is no uuid")
    former = formers.get(one.rp_uuid or "")
    if former is None:
        return TakenRequest(one, None, why_not=_NO_DEVICE.format(one.rp_uuid))
    if instance not in former.consumers:
        return TakenRequest(one, None, why_not="its instance has no allocation of its provider in Placement")
    unit = host.take(one, former.deployable_id)
    return TakenRequest(one, unit, None if unit else "its host offers no unit like it that is not lent")


class _Units:
    """The units of a host, as they are given away to requests one by one."""

    def __init__(self, rows: Sequence[Record], offers: Mapping[int, Record]) -> None:
        self._free = [row for row in rows if row.claim_id is None]
        self._lent = {(row.deployable_id, row.key) for row in rows if row.claim_id is not None}
        self._offers = offers
        self._named = {row.deployable_id for row in rows}
        self._busy = {row.uuid for row in rows if row.claim_id is not None}

    def take(self, one: CyborgRequest, deployable_id: int) -> HeldUnit | None:
        """The unit that a request has; nobody else gets it."""
        free = [row for row in self._free if (row.deployable_id, row.attach_type) == (deployable_id, one.attach_type)]
        if one.attach_type == AttachType.PCI:
            row = next((row for row in free if _function(row.attach_info) == _function(one.attach_info)), None)
            return self._new_card(one, deployable_id) if row is None else self._held(row, row.uuid)
        type_id = one.attach_info.get("asked_type")
        if (
            one.attach_type != AttachType.MDEV
            or one.handle_uuid is None
            or one.handle_uuid in self._busy
            or not type_id
        ):
            return None
        mark = one.attach_info.get("vgpu_mark", "")
        free = [row for row in free if row.attach_info.get("asked_type") == type_id]
        named = [row for row in free if row.uuid == one.handle_uuid]
        numbered = [row for row in free if row.key == mark]
        row = next(iter([*named, *numbered]), None)
        return self._new(one, deployable_id, type_id, mark) if row is None else self._held(row, one.handle_uuid)

    def _held(self, row: Record, uuid: str) -> HeldUnit:
        self._free.remove(row)
        self._lent.add((row.deployable_id, row.key))
        facts = (row.key, row.attach_type, row.attach_info, row.deployable_id, row.resource_class, row.device)
        return HeldUnit(row.id, uuid, *facts)

    def _new_card(self, one: CyborgRequest, deployable_id: int) -> HeldUnit | None:
        """A whole card that the agent names without a unit, since somebody has it: as it names the unit once it is told whose it is."""
        offer, key = self._offers[deployable_id], "{}:{}:{}.{}".format(*_function(one.attach_info))
        uuid = one.handle_uuid or ""
        if key != offer.device or deployable_id in self._named or uuid in self._busy:
            return None
        self._named.add(deployable_id)
        self._busy.add(uuid)
        info = dict(zip(_PCI, _function(one.attach_info), strict=True))
        facts = (key, one.attach_type, info, deployable_id, offer.resource_class, offer.device)
        return HeldUnit(None, uuid, *facts)

    def _new(self, one: CyborgRequest, deployable_id: int, type_id: str, mark: str) -> HeldUnit:
        """One that the agent does not name: of the mediated devices on a card it names those that are ours and those still to be made."""
        used = self._lent | {(row.deployable_id, row.key) for row in self._free}
        keys = [mark, *(f"{type_id}_{number}" for number in range(len(used) + 1))]
        key = next(key for key in keys if key and (deployable_id, key) not in used)
        self._lent.add((deployable_id, key))
        info = {**one.attach_info, "vgpu_mark": key}
        offer = self._offers[deployable_id]
        facts = (key, one.attach_type, info, deployable_id, offer.resource_class, offer.device)
        return HeldUnit(None, one.handle_uuid or "", *facts)


def _handles(connection: Connection, units: Sequence[HeldUnit], moment: dt.datetime) -> dict[str, int]:
    """Numbers of these units, by the uuid that each has from now on."""
    standing = [(unit.id, unit.uuid) for unit in units if unit.id is not None]
    store.rename_units(connection, standing)
    new = [unit for unit in units if unit.id is None]
    rows = [
        {
            **{"uuid": unit.uuid, "deployable_id": unit.deployable_id, "key": unit.key, "created_at": moment},
            **{"attach_type": unit.attach_type, "attach_info": dict(unit.attach_info)},
        }
        for unit in new
    ]
    made = store.add_units(connection, rows)
    return {uuid: number for number, uuid in standing} | dict(zip((unit.uuid for unit in new), made, strict=True))


def _function(info: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(info.get(name, "").lower() for name in _PCI)


def _with_profile(one: TakenRequest, found: DeviceProfile | None) -> TakenRequest:
    if one.unit is None or found is not None:
        return one
    return TakenRequest(one.theirs, None, why_not=f"its profile, {one.theirs.profile_name}, cannot be kept")


def _row(one: TakenRequest, unit: HeldUnit, hostname: str, found: DeviceProfile | None) -> dict[str, Any]:
    assert found is not None  # noqa: S101 - `_with_profile` has seen to it
    group = [asked for asked in asked_for(found.groups) if asked.group_id == one.theirs.group_id]
    asked = next((ask for ask in group if ask.resource_class == unit.resource_class), Unit(one.theirs.group_id, ""))
    return {
        "uuid": uuids.checked(one.theirs.uuid, "accelerator request uuid"),
        "state": ArqState.BOUND,
        "profile_id": found.id,
        "profile_name": found.name,
        "group_id": one.theirs.group_id,
        "resource_class": unit.resource_class,
        "required": asked.required,
        "forbidden": asked.forbidden,
        "project_id": one.theirs.project_id,
        "hostname": one.theirs.hostname or hostname,
        "device_rp_uuid": one.theirs.rp_uuid,
        "instance_uuid": uuids.checked(one.theirs.instance_uuid, "instance_uuid"),
        "created_at": one.theirs.created_at,
        "bind_serial": 1,
    }


def _thing(one: TakenRequest, unit: HeldUnit, hostname: str) -> Thing:
    return Thing(
        owner_id=one.theirs.project_id,
        hostname=hostname,
        device=unit.device,
        unit_uuid=unit.uuid,
        resource_class=unit.resource_class,
        arq_uuid=one.theirs.uuid,
        instance_uuid=one.theirs.instance_uuid,
        facts={"profile": one.theirs.profile_name, "from": "cyborg"},
    )
