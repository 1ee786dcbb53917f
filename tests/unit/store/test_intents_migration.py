"""A database from before there were intents: what is in it goes on as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import text
from tests.postgres import Postgres

from cantle.engine.device import list_devices
from cantle.model.intent import IntentState
from cantle.store import migrate
from cantle.store.database import Database

_HOST = "INSERT INTO hosts (id, hostname, generation, former_starts, problems, created_at) VALUES (1, 'h1', 1, '[]', '[]', '2026-01-01')"
_DEVICE = """INSERT INTO devices (id, uuid, host_id, address, type, vendor, model, vendor_id, product_id, mode, health, status,
capabilities, std_board_info, vendor_board_info, control_path_uuid, control_path_type, control_path_info, created_at) VALUES (1,
'6e5a3b0c-0000-4000-8000-000000000001', 1, '0000:af:00.0', 'GPU', '10de', 'T4', '10de', '1eb8', 'mdev', 'ok', 'enabled', '["mdev"]', '{}',
'{}', '6e5a3b0c-0000-4000-8000-000000000002', 'PCI', '{}', '2026-01-01')"""


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_devices_of_an_earlier_schema_have_no_intent_and_are_in_service(kind: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}" if kind == "sqlite" else Postgres.shared().new_database()
    old = Database.open(url, check=False)
    with old.write() as connection:
        config = migrate._config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for statement in (_HOST, _DEVICE):
            connection.execute(text(statement))
    old.close()
    migrate.upgrade(url)
    db = Database.open(url)
    (device,) = list_devices(db)
    assert (device.intent.state, device.intent.version, device.mdev_types) == (IntentState.NONE, 0, {})
    assert device.out_of_service == "h1 is down"  # its agent has yet to speak; nothing else is against it
    db.close()
