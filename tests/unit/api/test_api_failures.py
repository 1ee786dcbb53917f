"""What goes wrong inside stays inside: no traceback, no SQL, no path reaches a client, and one bad row spoils no list."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import falcon.testing
import pytest
import sqlalchemy
from tests.stories.hosts import HOSTS
from tests.stories.world import World, fresh_database

from cantle.api import admission, dispatch
from cantle.api.app import public_app
from cantle.api.call import Call, Site
from cantle.api.frame import Frame
from cantle.api.identity import local_admin
from cantle.api.parking import Parking
from cantle.api.policy import Policy
from cantle.api.route import Route
from cantle.api.rules import PUBLIC
from cantle.api.settings import Settings
from cantle.errors import HostError
from cantle.store.database import Database


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """An empty database."""
    database = fresh_database(tmp_path)
    yield database
    database.close()


def _raise_unforeseen(call: Call) -> None:
    raise ZeroDivisionError(f"secret of {call.path}")


def _raise_ours(call: Call) -> None:
    raise HostError("mdev-busy", "The mdev is in use.", path="/sys/x", errno=16)


def _cannot_be_encoded(call: Call) -> object:
    return {"answer": object()}


def _app(db: Database, handler: Any) -> Frame:
    paths = ("/v2/break", "/v1/break")
    routes = [Route("GET", path, PUBLIC, handler, says="Breaks.") for path in paths]
    settings = Settings()
    site = Site(db, settings, Policy(), local_admin, Parking(1))
    return Frame(dispatch.build(routes, site), admission.anyone)


@pytest.mark.parametrize("handler", [_raise_unforeseen, _cannot_be_encoded])
@pytest.mark.parametrize("path", ["/v2/break", "/v1/break"])
def test_an_unforeseen_failure_shows_the_client_its_id_and_the_log_the_rest(
    db: Database, handler: Any, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = falcon.testing.simulate_get(_app(db, handler), path)
    assert answer.status_code == 500
    assert answer.headers["x-cantle-error-code"] == "internal-error"
    assert answer.headers["x-openstack-request-id"] in answer.text
    for secret in ("secret", "ZeroDivision", "Traceback", "object", ".py"):
        assert secret not in answer.text
    assert [record for record in caplog.records if record.exc_info and record.levelno == logging.ERROR]


def test_a_failure_of_ours_is_told_in_its_own_words_and_logged(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    answer = falcon.testing.simulate_get(_app(db, _raise_ours), "/v2/break")
    assert answer.status_code == 500
    assert json.loads(answer.json["error_message"]) == {
        "faultcode": "Server",
        "faultstring": "The mdev is in use.",
        "debuginfo": None,
    }
    assert "mdev-busy" in caplog.text


def test_a_failure_of_a_layer_below_the_frame_is_caught_too(caplog: pytest.LogCaptureFixture) -> None:
    def broken(environ: dict[str, Any], start_response: Any) -> Any:
        raise ZeroDivisionError("secret")

    answer = falcon.testing.simulate_get(Frame(broken, admission.anyone), "/v2/devices")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert "ZeroDivisionError" in caplog.text


def test_details_that_are_no_json_do_not_break_the_answer(db: Database) -> None:
    def conflict(call: Call) -> None:
        raise HostError("mdev-busy", "The mdev is in use.", who=Path("/x"), status="busy")

    answer = falcon.testing.simulate_get(_app(db, conflict), "/v1/break")
    assert answer.json["who"] == "/x"
    assert answer.json["status"] == 500


def test_a_database_that_is_away_is_503_and_the_process_is_still_up(tmp_path: Path) -> None:
    database = fresh_database(tmp_path)
    app = public_app(database, Settings())
    (tmp_path / "cantle.db").unlink()
    for other in tmp_path.glob("cantle.db-*"):
        other.unlink()
    database.close()
    local: dict[str, Any] = {"remote_addr": "127.0.0.1", "headers": {"Host": "127.0.0.1"}}
    answer = falcon.testing.simulate_get(app, "/v2/devices", **local)
    assert answer.status_code == 503
    assert answer.headers["x-cantle-error-code"].startswith("database-")
    assert "SELECT" not in answer.text
    assert falcon.testing.simulate_get(app, "/readyz", **local).status_code == 503
    assert falcon.testing.simulate_get(app, "/healthz", **local).status_code == 200
    database.close()


#: A row that no code of ours would write, and the list it is in.
BAD_ROWS = [
    ("UPDATE device_profiles SET uuid = 'no-uuid'", "/v2/device_profiles", "device_profiles"),
    ("UPDATE device_profiles SET description = ''", "/v2/device_profiles", "device_profiles"),
    ("UPDATE devices SET vendor = '', model = ''", "/v2/devices", "devices"),
    ("UPDATE arqs SET instance_uuid = 'my-server', project_id = 'acme'", "/v2/accelerator_requests", "arqs"),
    ("UPDATE arqs SET device_rp_uuid = '', hostname = ''", "/v2/accelerator_requests", "arqs"),
    ("UPDATE attributes SET value = ''", "/v2/attributes", "attributes"),
    ("UPDATE deployables SET name = '', rp_uuid = 'x' || id", "/v2/deployables", "deployables"),
]


@pytest.mark.parametrize(("statement", "path", "key"), BAD_ROWS, ids=[row[0] for row in BAD_ROWS])
def test_one_bad_row_never_breaks_a_list(tmp_path: Path, statement: str, path: str, key: str) -> None:
    """In Cyborg a profile with a bad uuid, or an instance that is no uuid, turns the list into 400 for everybody."""
    database = fresh_database(tmp_path)
    world = World(database)
    for host, content in HOSTS["two-cards"].items():
        world.call("PUT", f"/v1/hosts/{host}/inventory", body=content, agent=True)
    world.call("POST", "/v2/device_profiles", body=[{"name": "one", "groups": [{"resources:VGPU": "1"}]}])
    world.call("POST", "/v2/accelerator_requests", person="nova", body={"device_profile_name": "one"})
    with database.write() as connection:
        connection.execute(sqlalchemy.text(statement))
    answer = world.call("GET", path)
    assert answer.status_code == 200, answer.text
    assert answer.json[key]
    database.close()
