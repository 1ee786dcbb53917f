"""The same Cantle on real database servers: migrations, concurrent binds, and a crash of the server in between."""

from __future__ import annotations

import datetime as dt
import urllib.error
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, insert
from tests.postgres import Postgres
from tests.real.accelerator import Accelerator, FakeDevice
from tests.real.mariadb import MariaDb
from tests.real.processes import running, wait_until

from cantle.store import host
from cantle.store.database import Database
from cantle.store.migrate import upgrade
from cantle.store.tables import hosts

ARQS = "/v2/accelerator_requests"


@pytest.fixture(scope="module")
def mariadb(directory: Path) -> Iterator[MariaDb]:
    """A MariaDB that is up."""
    made = MariaDb(directory)
    try:
        made.create()
        with running(made.service, made.answers):
            yield made
    finally:
        made.remove()


@pytest.fixture(scope="module", params=["postgresql", "mariadb"])
def standalone(request: pytest.FixtureRequest, directory: Path) -> Iterator[Accelerator]:
    """A Cantle on each kind of server, asking nobody."""
    new_database: dict[str, Callable[[], str]] = {
        "postgresql": lambda: Postgres.shared().new_database(),
        "mariadb": lambda: request.getfixturevalue("mariadb").new_database("cantle"),
    }
    url = new_database[request.param]()
    made = Accelerator(directory, f"cantle-on-{request.param}", database_url=url)
    with running(made.service, made.answers):
        yield made


@pytest.fixture(scope="module")
def device(standalone: Accelerator) -> FakeDevice:
    """Its one device, of sixteen units."""
    return FakeDevice.found(lambda method, path: standalone.call(method, f"/v2{path}"))


def status(cantle: Accelerator, method: str, path: str, body: object = None) -> int:
    """What a request comes to."""
    try:
        cantle.call(method, path, body)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


def bind(device: FakeDevice, arq: str) -> dict[str, Any]:
    """The body that binds an ARQ to an instance of its own."""
    to = {"hostname": device.hostname, "device_rp_uuid": device.rp_uuid, "instance_uuid": str(uuid.uuid4())}
    return {arq: [{"path": f"/{field}", "op": "add", "value": value} for field, value in to.items()]}


def states(cantle: Accelerator) -> Counter[str]:
    """How many ARQs are in which state."""
    return Counter(arq["state"] for arq in cantle.call("GET", ARQS)["arqs"])


def used(cantle: Accelerator) -> int:
    """Units that are lent or being taken back."""
    (row,) = cantle.call("GET", "/v1/capacity")["capacity"]
    taken: int = row["used"]
    return taken


def rows_read(connection: Connection) -> int:
    """Rows that MariaDB has looked at for this connection so far."""
    found = connection.exec_driver_sql("SHOW SESSION STATUS LIKE 'Handler_read%%'")
    return sum(int(value) for _name, value in found)


@pytest.mark.parametrize("lock", [host.lock_of_providers, host.lock_of_arqs])
def test_what_a_bind_locks_is_found_without_a_look_at_all_hosts(
    mariadb: MariaDb, lock: Callable[[Connection, Sequence[str]], None]
) -> None:
    url = mariadb.new_database(f"fleet_{lock.__name__}")
    upgrade(url)
    db = Database.open(url)
    moment = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
    rows = [
        {"hostname": f"h{number}", "generation": 1, "former_starts": (), "problems": (), "created_at": moment}
        for number in range(300)
    ]
    with db.write() as connection:
        connection.execute(insert(hosts), rows)
        before = rows_read(connection)
        lock(connection, [str(uuid.uuid4())])
        assert rows_read(connection) - before < len(rows) / 2
    db.close()


def test_of_many_who_want_a_unit_at_once_as_many_win_as_there_are_units(
    standalone: Accelerator, device: FakeDevice
) -> None:
    groups = [{"resources:FPGA": "24", "trait:CUSTOM_FAKE_DEVICE": "required"}]
    standalone.call("POST", "/v2/device_profiles", [{"name": "crowd", "groups": groups}])
    arqs = [arq["uuid"] for arq in standalone.call("POST", ARQS, {"device_profile_name": "crowd"})["arqs"]]
    assert len(arqs) == 24

    with ThreadPoolExecutor(8) as pool:
        came_to = list(pool.map(lambda arq: status(standalone, "PATCH", ARQS, bind(device, arq)), arqs))
    assert Counter(came_to)[200] == 16
    assert set(came_to) <= {200, 404, 409}
    wait_until("sixteen are bound", lambda: states(standalone) == {"Bound": 16, "Initial": 8})
    handles = [arq["attach_handle_uuid"] for arq in standalone.call("GET", ARQS)["arqs"] if arq["state"] == "Bound"]
    assert len(set(handles)) == 16, "a unit was lent twice"

    with ThreadPoolExecutor(8) as pool:
        gone = list(pool.map(lambda arq: status(standalone, "DELETE", f"{ARQS}?arqs={arq}"), arqs))
    assert set(gone) == {200}
    wait_until("all units are back", lambda: used(standalone) == 0)
    standalone.call("DELETE", "/v2/device_profiles/crowd")


def test_a_crash_of_cantle_loses_nothing(standalone: Accelerator, device: FakeDevice) -> None:
    groups = [{"resources:FPGA": "2", "trait:CUSTOM_FAKE_DEVICE": "required"}]
    standalone.call("POST", "/v2/device_profiles", [{"name": "crash", "groups": groups}])
    first, second = (arq["uuid"] for arq in standalone.call("POST", ARQS, {"device_profile_name": "crash"})["arqs"])
    standalone.call("PATCH", ARQS, bind(device, first))
    wait_until("the first is bound", lambda: states(standalone) == {"Bound": 1, "Initial": 1})
    before = standalone.call("GET", f"{ARQS}/{first}")

    standalone.crash()
    assert standalone.call("GET", f"{ARQS}/{first}") == before
    standalone.call("PATCH", ARQS, bind(device, second))
    wait_until("both are bound", lambda: states(standalone) == {"Bound": 2})

    standalone.call("DELETE", f"{ARQS}?arqs={first},{second}")
    wait_until("all units are back", lambda: used(standalone) == 0)
    standalone.call("DELETE", "/v2/device_profiles/crash")
