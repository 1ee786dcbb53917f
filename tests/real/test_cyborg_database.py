"""``cantle placement adopt`` reads the tables that openstack-cyborg 17's own migrations make, on MariaDB."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, inspect
from tests.cyborg_database import SCHEMA, CyborgDatabase
from tests.real import cyborg_schema
from tests.real.mariadb import MariaDb
from tests.real.processes import running

from cantle.store import cyborg


@pytest.fixture(scope="module")
def url(directory: Path) -> Iterator[str]:
    """Where Cyborg's tables are."""
    cyborg_schema.install()
    database = MariaDb(directory)
    try:
        database.create()
        with running(database.service, database.answers):
            made = database.new_database("cyborg")
            cyborg_schema.make(made)
            yield made.replace("mariadb:", "mysql+pymysql:", 1)
    finally:
        database.remove()


@pytest.fixture(scope="module")
def engine(url: str) -> Iterator[Engine]:
    """A connection that may write, as Cyborg's own."""
    made = create_engine(url)
    yield made
    made.dispose()


def test_our_picture_of_its_tables_is_its_migrations(engine: Engine) -> None:
    for name, table in SCHEMA.tables.items():
        assert {one["name"] for one in inspect(engine).get_columns(name)} == {one.name for one in table.columns}


def test_what_is_there_is_read_and_nothing_is_written(engine: Engine, url: str) -> None:
    theirs = CyborgDatabase(engine)
    provider, unit, instance = (str(uuid.uuid4()) for _ in range(3))
    mark = {"asked_type": "nvidia-223", "vgpu_mark": "nvidia-223_0"}
    handles = theirs.device("compute-1", "0000:af:00.0", provider, {unit: mark})
    profile = theirs.profile("gold", [{"resources:VGPU": "1"}])
    request = theirs.request(
        profile, hostname="compute-1", device_rp_uuid=provider, instance_uuid=instance, attach_handle_id=handles[unit]
    )
    found = cyborg.read(url)
    assert found.places == {provider: cyborg.Place("compute-1", "0000:af:00.0")}
    assert [(one.name, one.groups) for one in found.profiles] == [("gold", [{"resources:VGPU": "1"}])]
    (one,) = found.requests
    assert (one.uuid, one.state, one.rp_uuid, one.instance_uuid) == (request, "Bound", provider, instance)
    assert (one.handle_uuid, one.attach_type, one.attach_info["vgpu_mark"]) == (unit, "MDEV", "nvidia-223_0")
    assert one.created_at.isoformat() == "2026-03-01T12:00:00+00:00"
