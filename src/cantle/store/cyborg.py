"""The database of a Cyborg (17; the columns are there since Train), read once, to take over what it lends. Nothing is written to it.

Tables and columns: contract section 3. A provider there is a ``deployable`` with an ``rp_uuid``; a unit is an ``attach_handle``; for a
mediated device its uuid is that of the handle.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, DateTime, column, select, table
from sqlalchemy.exc import SQLAlchemyError

from cantle.errors import BadConfig, BadRequest
from cantle.model.pci import PciAddress
from cantle.store.engines import parse, reader, shown
from cantle.store.types import Record

_devices = table("devices", column("id"), column("hostname"))
_paths = table("controlpath_ids", column("device_id"), column("cpid_info"))
_deployables = table("deployables", column("id"), column("device_id"), column("rp_uuid"))
_handles = table("attach_handles", *(column(name) for name in ("id", "uuid", "attach_type", "attach_info")))
_profiles = table("device_profiles", *(column(name) for name in ("id", "uuid", "name", "profile_json", "description")))
_requests = table(
    "extended_accelerator_requests",
    *(column(name) for name in ("id", "uuid", "project_id", "state", "device_profile_id", "device_profile_group_id")),
    *(column(name) for name in ("hostname", "device_rp_uuid", "instance_uuid", "attach_handle_id")),
    column("created_at", DateTime),
)

_PLACES = (
    select(_deployables.c.rp_uuid, _devices.c.hostname, _paths.c.cpid_info)
    .select_from(
        _deployables.join(_devices, _devices.c.id == _deployables.c.device_id).join(
            _paths, _paths.c.device_id == _devices.c.id
        )
    )
    .where(_deployables.c.rp_uuid.is_not(None))
    .order_by(_deployables.c.id)
)
_PROFILES = select(_profiles.c.uuid, _profiles.c.name, _profiles.c.profile_json, _profiles.c.description).order_by(
    _profiles.c.id
)
_REQUESTS = (
    select(
        *(_requests.c[name] for name in ("uuid", "project_id", "state", "hostname", "device_rp_uuid", "instance_uuid")),
        _requests.c.created_at,
        _requests.c.device_profile_group_id,
        _profiles.c.name.label("profile_name"),
        _handles.c.uuid.label("handle_uuid"),
        _handles.c.attach_type,
        _handles.c.attach_info,
    )
    .select_from(
        _requests.join(_profiles, _profiles.c.id == _requests.c.device_profile_id).outerjoin(
            _handles, _handles.c.id == _requests.c.attach_handle_id
        )
    )
    .order_by(_requests.c.id)
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a provider's device is: Cyborg's name of its host, and the PCI address as sysfs spells it, "" where it has none."""

    hostname: str
    address: str


@dataclass(frozen=True, slots=True)
class CyborgProfile:
    """A device profile as it is there; nothing of it is checked."""

    uuid: str
    name: str
    groups: object
    description: str | None


@dataclass(frozen=True, slots=True)
class CyborgRequest:
    """An accelerator request as it is there, with its unit, if it has one; ``attach_info`` is {} if it has none."""

    uuid: str
    state: str
    profile_name: str
    group_id: int
    project_id: str | None
    hostname: str | None
    rp_uuid: str | None
    instance_uuid: str | None
    handle_uuid: str | None
    attach_type: str
    attach_info: Mapping[str, str]
    created_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Cyborg:
    """All that is taken over from there.

    :param places: by provider uuid.
    """

    places: Mapping[str, Place] = field(default_factory=dict)
    profiles: tuple[CyborgProfile, ...] = ()
    requests: tuple[CyborgRequest, ...] = ()


def read(url: str) -> Cyborg:
    """Everything, as it is at one moment: three statements.

    :raises BadConfig: ``bad-database-url``, ``cyborg-database-unreadable``.
    """
    parsed = parse(url)
    engine = reader(parsed)
    try:
        with engine.connect() as connection:
            return _all(connection)
    except SQLAlchemyError as error:
        why = getattr(error, "orig", None) or type(error).__name__
        raise BadConfig(
            "cyborg-database-unreadable",
            f"{shown(parsed)} cannot be read as Cyborg's database: {why}. Give the URL of [database] connection in cyborg.conf.",
        ) from error
    finally:
        engine.dispose()


def _all(connection: Connection) -> Cyborg:
    places = {row.rp_uuid: Place(row.hostname, _address(row.cpid_info)) for row in connection.execute(_PLACES)}
    profiles = tuple(
        CyborgProfile(row.uuid, row.name, _json(row.profile_json).get("groups"), row.description)
        for row in connection.execute(_PROFILES)
    )
    return Cyborg(places, profiles, tuple(_request(row) for row in connection.execute(_REQUESTS)))


def _request(row: Record) -> CyborgRequest:
    made = row.created_at or dt.datetime.now(dt.UTC)
    return CyborgRequest(
        row.uuid,
        row.state,
        row.profile_name,
        row.device_profile_group_id,
        row.project_id,
        row.hostname,
        row.device_rp_uuid,
        row.instance_uuid,
        row.handle_uuid,
        row.attach_type or "",
        {str(name): str(value) for name, value in _json(row.attach_info).items()},
        made.replace(tzinfo=dt.UTC),  # Cyborg writes UTC and no zone
    )


def _address(text: str) -> str:
    """Of ``{"bus": "af", "device": "00", "domain": "0000", "function": "0"}``; drivers without PCI write other things."""
    try:
        return str(PciAddress.parse("{domain}:{bus}:{device}.{function}".format(**_json(text))))
    except (KeyError, BadRequest):
        return ""


def _json(text: str | None) -> dict[str, Any]:
    """An object of JSON text; {} for anything else."""
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
