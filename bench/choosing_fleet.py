"""A fleet to choose from, written straight into the tables: hosts of eight cards, of four kinds, half of what they have lent."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection, Table, insert, text

from cantle.engine.profile import create_profile
from cantle.model import kind as kinds
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.kind import Kind
from cantle.store.database import Database
from cantle.store.kind_tables import kinds as kind_table
from cantle.store.kind_tables import stocks
from cantle.store.migrate import upgrade
from cantle.store.tables import attach_handles, claims, deployables, devices, hosts
from cantle.store.types import database_now

CARDS = 8
UNITS = 8
#: Of eight cards of a host, how many are cut into slices; the others are lent whole.
SLICED = 2
#: Of each host, by node: two sockets.
SOCKETS = {0: 0, 1: 1}
#: Two kinds of whole cards and two of slices: a host has one of each pair.
MODELS = (("20b0", "A100"), ("2330", "H100"))
TYPES = ("CUSTOM_NVIDIA_1EB8_T4_2B", "CUSTOM_NVIDIA_1EB8_T4_4Q")

#: What is asked for, by name of the profile: one slice, a whole card, two whole cards on one node, and on one socket, a card and a slice, a
#: preferred model.
PROFILES: dict[str, list[dict[str, str]]] = {
    "slice": [{"resources:VGPU": "1", f"trait:{TYPES[0]}": "required"}],
    "card": [{"resources:PGPU": "1", "trait:CUSTOM_NVIDIA_20B0": "required"}],
    "near": [{"resources:PGPU": "1", "accel:numa_policy": "required"}] * 2,
    "board": [{"resources:PGPU": "1", "accel:numa_policy": "socket"}] * 2,
    "both": [{"resources:PGPU": "1"}, {"resources:VGPU": "2"}],
    "liked": [{"resources:PGPU": "1", "accel:prefer": "H100, A100"}],
    "nowhere": [{"resources:PGPU": "9"}, {"resources:VGPU": "9"}],
}

_BEGINNING = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_CHUNK = 2000


def fill(url: str, size: int) -> None:
    """So many hosts. Of every second card all units are lent."""
    upgrade(url)
    db = Database.open(url)
    try:
        for name, groups in PROFILES.items():
            create_profile(db, LOCAL_ADMIN, name=name, groups=groups)
        with db.write() as connection:
            _write(connection, size)
        if db.dialect == "postgresql":
            with db.write() as connection:
                connection.execute(text("ANALYZE"))
    finally:
        db.close()


def _write(connection: Connection, size: int) -> None:
    known = [_kind(*model, None) for model in MODELS] + [_kind("1eb8", "T4", trait) for trait in TYPES]
    connection.execute(
        insert(kind_table),
        [{"digest": kind.digest, "facts": facts, "created_at": _BEGINNING} for kind, facts in known],
    )
    for table, rows in _rows(size, [kind for kind, _ in known]):
        for start in range(0, len(rows), _CHUNK):
            connection.execute(insert(table), rows[start : start + _CHUNK])
    connection.execute(hosts.update().values(last_seen=database_now(3600.0)))
    if connection.dialect.name == "postgresql":
        for table in (hosts, devices, deployables, attach_handles, claims):
            connection.execute(text(f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), 100000000)"))


def _kind(product: str, model: str, trait: str | None) -> tuple[Kind, str]:
    digest, facts = kinds.facts(
        resource_class="VGPU" if trait else "PGPU",
        mode="mdev" if trait else "passthrough",
        vendor_id="10de",
        product_id=product,
        model=model,
        capabilities=("passthrough",),
        traits=("OWNER_CYBORG", trait or f"CUSTOM_NVIDIA_{product.upper()}"),
        labels={},
    )
    return kinds.load(digest, facts), facts


def _rows(size: int, known: list[Kind]) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    """Rows by table, in the order in which they refer to each other."""
    found: dict[Table, list[dict[str, Any]]] = {
        table: [] for table in (hosts, devices, deployables, attach_handles, claims, stocks)
    }
    handle = 0
    for host in range(1, size + 1):
        found[hosts].append(
            {
                "id": host,
                "hostname": f"host-{host:05d}",
                "generation": 1,
                "former_starts": (),
                "problems": (),
                "created_at": _BEGINNING,
                "sockets": SOCKETS,
            }
        )
        free: dict[str, int] = {}
        for card in range(CARDS):
            number = (host - 1) * CARDS + card + 1
            kind = known[2 + host % 2] if card < SLICED else known[host % 2]
            found[devices].append(_device(number, host, card, kind))
            found[deployables].append(_deployable(number, host, kind))
            lent = (host + card) % 2 == 0
            for _ in range(UNITS if kind.sliced else 1):
                handle += 1
                found[attach_handles].append(_handle(handle, number, kind))
                if lent:
                    found[claims].append(_claim(handle, number, host))
                else:
                    free[kind.digest] = free.get(kind.digest, 0) + 1
        found[stocks] += [{"host_id": host, "kind": digest, "free": count} for digest, count in free.items()]
    yield from found.items()


def _device(number: int, host: int, card: int, kind: Kind) -> dict[str, Any]:
    return {
        "id": number,
        "uuid": str(uuid4()),
        "host_id": host,
        "address": f"0000:{16 + card:02x}:00.0",
        "type": "GPU",
        "vendor": "10de",
        "model": kind.model,
        "vendor_id": kind.vendor_id,
        "product_id": kind.product_id,
        "mode": kind.mode,
        "health": "ok",
        "status": "enabled",
        "numa_node": card % 2,
        "capabilities": (),
        "std_board_info": {},
        "vendor_board_info": {},
        "control_path_uuid": str(uuid4()),
        "control_path_type": "PCI",
        "control_path_info": {},
        "created_at": _BEGINNING,
    }


def _deployable(number: int, host: int, kind: Kind) -> dict[str, Any]:
    return {
        "id": number,
        "uuid": str(uuid4()),
        "name": f"card-{number}",
        "device_id": number,
        "host_id": host,
        "rp_uuid": str(uuid4()),
        "driver_name": "nvidia",
        "resource_class": kind.resource_class,
        "traits": tuple(sorted(kind.traits)),
        "total": UNITS if kind.sliced else 1,
        "created_at": _BEGINNING,
        "kind": kind.digest,
    }


def _handle(number: int, deployable: int, kind: Kind) -> dict[str, Any]:
    return {
        "id": number,
        "uuid": str(uuid4()),
        "deployable_id": deployable,
        "key": str(number),
        "attach_type": "MDEV" if kind.sliced else "PCI",
        "attach_info": {},
        "present": True,
        "created_at": _BEGINNING,
    }


def _claim(handle: int, deployable: int, host: int) -> dict[str, Any]:
    return {
        "attach_handle_id": handle,
        "deployable_id": deployable,
        "host_id": host,
        "wanted": True,
        "generation": 1,
        "created_at": _BEGINNING,
    }
