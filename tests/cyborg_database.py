"""The database of an openstack-cyborg 17, on SQLite, and filled as Cyborg fills it.

`SCHEMA` has the tables that hold devices and requests as Cyborg's own migrations leave them (``tests/real/test_cyborg_database.py``
compares); the rest of it nobody needs.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from sqlalchemy import Boolean, Column, DateTime, Engine, Integer, MetaData, String, Table, Text, insert

SCHEMA = MetaData()


def _table(table: str, /, **columns: Any) -> Table:
    made = [Column(word, kind, nullable=True) for word, kind in columns.items()]
    times = Column("created_at", DateTime), Column("updated_at", DateTime)
    return Table(table, SCHEMA, Column("id", Integer, primary_key=True), *made, *times)


_ID, _WORD = String(36), String(255)
_table(
    "devices",
    **{
        "uuid": _ID,
        "type": String(16),
        "vendor": _WORD,
        "model": _WORD,
        "std_board_info": Text,
        "vendor_board_info": Text,
    },
    **{"hostname": _WORD, "status": String(16), "device_state": String(16)},
)
_table("controlpath_ids", uuid=_ID, device_id=Integer, cpid_type=String(8), cpid_info=_WORD)
_table(
    "deployables",
    **{"uuid": _ID, "parent_id": Integer, "root_id": Integer, "name": _WORD, "num_accelerators": Integer},
    **{"device_id": Integer, "rp_uuid": _ID, "driver_name": String(100), "bitstream_id": _ID},
)
_table(
    "attach_handles",
    **{"uuid": _ID, "deployable_id": Integer, "cpid_id": Integer, "in_use": Boolean},
    **{"attach_type": String(16), "attach_info": _WORD},
)
_table("device_profiles", uuid=_ID, name=_WORD, profile_json=Text, description=Text)
_table(
    "extended_accelerator_requests",
    **{
        "uuid": _ID,
        "project_id": _WORD,
        "state": String(16),
        "device_profile_id": Integer,
        "device_profile_group_id": Integer,
    },
    **{"hostname": _WORD, "device_rp_uuid": _ID, "instance_uuid": _ID, "attach_handle_id": Integer},
    **{"substate": String(16), "deployable_id": Integer},
)


class CyborgDatabase:
    """One with its tables, to be filled."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def profile(self, name: str, groups: object) -> int:
        """A device profile."""
        text = json.dumps({"groups": groups})
        return self._add("device_profiles", uuid=str(uuid4()), name=name, profile_json=text)

    def device(
        self, hostname: str, address: str, rp_uuid: str, units: Mapping[str, Mapping[str, str]]
    ) -> dict[str, int]:
        """A card with its provider.

        :param units: by uuid of the handle, what it has besides the address: {} for the function itself, else ``asked_type`` and
            ``vgpu_mark``.
        :returns: the handles' numbers by uuid.
        """
        domain, bus, rest = address.split(":")
        slot, function = rest.split(".")
        place = {"bus": bus, "device": slot, "domain": domain, "function": function}
        card = {"type": "GPU", "vendor": "10de", "model": "T4", "status": "enabled"}
        device = self._add("devices", uuid=str(uuid4()), hostname=hostname, **card)
        path = self._add(
            "controlpath_ids", uuid=str(uuid4()), device_id=device, cpid_type="PCI", cpid_info=json.dumps(place)
        )
        name = f"{hostname}_{address}"
        provider = {"name": name, "num_accelerators": len(units), "rp_uuid": rp_uuid, "driver_name": "nvidia"}
        deployable = self._add("deployables", uuid=str(uuid4()), device_id=device, **provider)
        return {
            uuid: self._add(
                "attach_handles",
                **{"uuid": uuid, "deployable_id": deployable, "cpid_id": path, "in_use": False},
                **{"attach_type": "MDEV" if more else "PCI", "attach_info": json.dumps({**place, **more})},
            )
            for uuid, more in units.items()
        }

    def request(self, profile: int, **values: Any) -> str:
        """An accelerator request; bound, unless the values say otherwise. Its uuid."""
        uuid = str(uuid4())
        usual = {"state": "Bound", "device_profile_group_id": 0, "project_id": "alice-project", "substate": "Initial"}
        self._add("extended_accelerator_requests", uuid=uuid, device_profile_id=profile, **{**usual, **values})
        return uuid

    def _add(self, table: str, /, **values: Any) -> int:
        made = dt.datetime(2026, 3, 1, 12, 0, 0)  # noqa: DTZ001 - as Cyborg has it
        with self._engine.begin() as connection:
            number = connection.execute(
                insert(SCHEMA.tables[table]), {"created_at": made, **values}
            ).inserted_primary_key
        assert number is not None
        return int(number[0])
