"""A cloud to measure in: hosts with free units that have reported, a profile, ARQs to work with, and as many bound ones as asked for."""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

import msgspec
from sqlalchemy import Connection, insert, select

from cantle.engine.capacity import list_capacity
from cantle.engine.intake import accept_report
from cantle.engine.profile import create_profile
from cantle.engine.results import accept_results
from cantle.engine.work import wait_work
from cantle.model.arq import ArqState
from cantle.model.attach_handle import AttachType
from cantle.model.device import DeviceType, Health, Mode
from cantle.model.identity import LOCAL_ADMIN
from cantle.store.database import Database
from cantle.store.migrate import upgrade
from cantle.store.tables import arqs, attach_handles, claims, deployables, device_profiles, devices, hosts
from cantle.wire.inventory import DeployableReport, DeviceReport, HandleReport, InventoryReport
from cantle.wire.work import HandleResult, Outcome, Results

PROFILE = "bench"
CLASS = "VGPU"
TRAIT = "CUSTOM_NVIDIA_1EB8_T4_2B"
UNITS = 16
CARDS = 12

#: The life of the agent that all our hosts have.
START = "5d9c0a9e-0000-4000-8000-000000000001"

_CHUNK = 5000
_BEGINNING = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Provider:
    """Where ARQs can be bound: a deployable with `UNITS` free units."""

    hostname: str
    rp_uuid: str


@dataclass(frozen=True, slots=True)
class Cloud:
    """A filled database.

    :param arqs: uuids of ARQs that are Initial, to work with.
    :param full: how many bound ones there are besides.
    """

    url: str
    providers: list[Provider]
    arqs: list[str]
    full: int


def build(url: str, *, hosts: int, work: int, full: int) -> Cloud:
    """Migrate the database and fill it. ``hosts`` have `CARDS` times `UNITS` free units each."""
    upgrade(url)
    db = Database.open(url)
    try:
        for number in range(hosts):
            accept_report(db, f"compute-{number}", report([card(number, place) for place in range(CARDS)]))
        create_profile(
            db, LOCAL_ADMIN, name=PROFILE, groups=[{f"resources:{CLASS}": "1", f"trait:{TRAIT}": "required"}]
        )
        free = [Provider(one.hostname, one.rp_uuid) for one in list_capacity(db)]
        with db.write() as connection:
            _fill(connection, full)
            named = [str(uuid4()) for _ in range(work)]
            profile = connection.execute(select(device_profiles.c.id)).scalar_one()
            connection.execute(insert(arqs), [_arq(profile, uuid, number) for number, uuid in enumerate(named)])
            if db.dialect == "postgresql":
                connection.exec_driver_sql(
                    "ANALYZE"
                )  # as autovacuum has done, long since, where tables grew by themselves
        return Cloud(url, free, named, full)
    finally:
        db.close()


def settle(db: Database, hostnames: list[str]) -> None:
    """Play the agents of these hosts: they are there, whatever is wanted is ready, whatever is not is taken back."""
    for hostname in hostnames:
        work = wait_work(db, hostname, 0, 0)
        done = [HandleResult(handle.uuid, Outcome.READY) for handle in work.wanted]
        done += [HandleResult(handle.uuid, Outcome.ABSENT) for handle in work.unwanted]
        if done:
            accept_results(db, hostname, Results(START, work.generation, tuple(done)))


def report(cards: list[DeviceReport]) -> InventoryReport:
    """An agent's first report."""
    return InventoryReport(START, hashlib.sha256(msgspec.json.encode(cards)).hexdigest(), tuple(cards))


def card(host: int, place: int) -> DeviceReport:
    """A T4 that is cut into mediated devices, as its agent reports it."""
    bus = f"{place + 1:02x}"
    address = f"0000:{bus}:00.0"
    info = {"domain": "0000", "bus": bus, "device": "00", "function": "0", "asked_type": "nvidia-223"}
    units = tuple(HandleReport(f"nvidia-223_{number}", AttachType.MDEV, info) for number in range(UNITS))
    offered = DeployableReport(
        f"compute-{host}_{address}", "nvidia", CLASS, ("OWNER_CYBORG", TRAIT), units, {"vendor": "nvidia"}
    )
    return DeviceReport(
        address, DeviceType.GPU, "10de", "T4", "10de", "1eb8", Mode.MDEV, Health.OK, deployables=(offered,)
    )


def _arq(profile: int, uuid: str, number: int) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "state": ArqState.INITIAL,
        "profile_id": profile,
        "profile_name": PROFILE,
        "group_id": 0,
        "resource_class": CLASS,
        "required": (TRAIT,),
        "forbidden": (),
        "project_id": LOCAL_ADMIN.project_id,
        "created_at": _BEGINNING + dt.timedelta(days=100, seconds=number),
    }


def _fill(connection: Connection, count: int) -> None:
    """So many bound ARQs, `UNITS` to a device, on hosts of their own. By SQL: asking for each would take an hour."""
    profile = connection.execute(select(device_profiles.c.id)).scalar_one()
    per_host = CARDS * UNITS
    first = 1_000_000  # row numbers of our own choice, so that the tables can be filled one after the other
    for start in range(0, count, _CHUNK):
        numbers = range(start, min(start + _CHUNK, count))
        cards = sorted({number // UNITS for number in numbers} - {(start - 1) // UNITS})
        new_hosts = sorted({number // per_host for number in numbers} - {(start - 1) // per_host})
        connection.execute(insert(hosts), [_host(first, one) for one in new_hosts])
        connection.execute(insert(devices), [_device(first, one) for one in cards])
        connection.execute(insert(deployables), [_deployable(first, one) for one in cards])
        connection.execute(insert(attach_handles), [_handle(first, one) for one in numbers])
        connection.execute(insert(arqs), [_bound(first, profile, one) for one in numbers])
        connection.execute(insert(claims), [_claim(first, one) for one in numbers])


def _uuid(kind: int, number: int) -> str:
    """Spread as random ones are: an index fed in order would be smaller and quicker than a real one."""
    return str(UUID(bytes=hashlib.md5(f"{kind}/{number}".encode(), usedforsecurity=False).digest(), version=4))


def _host(first: int, number: int) -> dict[str, Any]:
    base = {"id": first + number, "hostname": f"full-{number}", "generation": 1, "created_at": _BEGINNING}
    return {**base, "former_starts": (), "problems": ()}


def _device(first: int, number: int) -> dict[str, Any]:
    return {
        "id": first + number,
        "uuid": _uuid(1, number),
        "host_id": first + number // CARDS,
        "address": f"0000:{number % CARDS + 1:02x}:00.0",
        "present": True,
        "type": "GPU",
        "vendor": "10de",
        "model": "T4",
        "vendor_id": "10de",
        "product_id": "1eb8",
        "mode": "mdev",
        "health": "ok",
        "status": "enabled",
        "capabilities": (),
        "std_board_info": {},
        "vendor_board_info": {},
        "control_path_uuid": _uuid(2, number),
        "control_path_type": "PCI",
        "control_path_info": {},
        "created_at": _BEGINNING,
    }


def _deployable(first: int, number: int) -> dict[str, Any]:
    return {
        "id": first + number,
        "uuid": _uuid(3, number),
        "name": f"full_{number}",
        "device_id": first + number,
        "host_id": first + number // CARDS,
        "rp_uuid": _uuid(4, number),
        "driver_name": "nvidia",
        "resource_class": CLASS,
        "traits": (TRAIT,),
        "total": UNITS,
        "created_at": _BEGINNING,
    }


def _handle(first: int, number: int) -> dict[str, Any]:
    return {
        "id": first + number,
        "uuid": _uuid(5, number),
        "deployable_id": first + number // UNITS,
        "key": f"nvidia-223_{number % UNITS}",
        "attach_type": AttachType.MDEV,
        "attach_info": {"asked_type": "nvidia-223"},
        "present": True,
        "created_at": _BEGINNING,
    }


def _bound(first: int, profile: int, number: int) -> dict[str, Any]:
    return {
        **_arq(profile, _uuid(6, number), 0),
        "id": first + number,
        "state": ArqState.BOUND,
        "hostname": f"full-{number // (CARDS * UNITS)}",
        "device_rp_uuid": _uuid(4, number // UNITS),
        "instance_uuid": _uuid(7, number),
        "created_at": _BEGINNING + dt.timedelta(seconds=number),
    }


def _claim(first: int, number: int) -> dict[str, Any]:
    return {
        "id": first + number,
        "attach_handle_id": first + number,
        "deployable_id": first + number // UNITS,
        "host_id": first + number // (CARDS * UNITS),
        "arq_id": first + number,
        "wanted": True,
        "generation": 1,
        "created_at": _BEGINNING,
    }
