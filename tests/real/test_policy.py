"""Who may do what, with the roles that a real Keystone puts into tokens: admin implies manager, that member, that reader."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests.real.accelerator import Accelerator
from tests.real.cloud import Cloud

NOWHERE = str(uuid.uuid4())
EVERYBODY = ("admin", "demo-admin", "demo-manager", "demo", "demo-reader", "robot", "demo-nobody")
READERS = {"admin", "demo-admin", "demo-manager", "demo", "demo-reader"}
MEMBERS = {"admin", "demo-admin", "demo-manager", "demo"}
MANAGERS = {"admin", "demo-admin", "demo-manager"}
ADMINS = {"admin", "demo-admin"}
WRITERS_OF_ARQS = MEMBERS | {"robot"}

#: Method, path, body, who gets past policy. The contract's table of the new defaults (section 1.6), with the implied roles. What
#: gets past it finds nothing there (404) or says what is missing (400): nothing is made.
CALLS: list[tuple[str, str, Any, set[str]]] = [
    ("GET", "/device_profiles", None, READERS),
    ("GET", f"/device_profiles/{NOWHERE}", None, READERS),
    ("POST", "/device_profiles", [], ADMINS),
    ("DELETE", f"/device_profiles/{NOWHERE}", None, ADMINS),
    ("DELETE", "/device_profiles?value=no-such-profile", None, ADMINS),
    ("GET", "/devices", None, MANAGERS),
    ("GET", f"/devices/{NOWHERE}", None, MANAGERS),
    ("POST", f"/devices/{NOWHERE}/disable", None, ADMINS),
    ("POST", f"/devices/{NOWHERE}/enable", None, ADMINS),
    ("GET", "/deployables", None, MANAGERS),
    ("GET", f"/deployables/{NOWHERE}", None, MANAGERS),
    (
        "PATCH",
        f"/deployables/{NOWHERE}/program",
        [{"path": "/program", "op": "replace", "value": [{"image_uuid": NOWHERE}]}],
        ADMINS,
    ),
    ("GET", "/attributes", None, MANAGERS),
    ("GET", f"/attributes/{NOWHERE}", None, MANAGERS),
    ("POST", "/attributes", {"deployable_id": 0, "key": "rack", "value": "r12"}, ADMINS),
    ("DELETE", f"/attributes/{NOWHERE}", None, ADMINS),
    ("GET", "/accelerator_requests", None, READERS),
    ("GET", f"/accelerator_requests/{NOWHERE}", None, READERS),
    ("POST", "/accelerator_requests", {"device_profile_name": "no-such-profile"}, WRITERS_OF_ARQS),
    ("PATCH", "/accelerator_requests", {NOWHERE: [{"path": "/hostname", "op": "remove"}]}, WRITERS_OF_ARQS),
    ("DELETE", f"/accelerator_requests?arqs={NOWHERE}", None, WRITERS_OF_ARQS),
    ("DELETE", f"/accelerator_requests?instance={NOWHERE}", None, WRITERS_OF_ARQS),
]


@pytest.mark.parametrize("person", EVERYBODY)
@pytest.mark.parametrize(("method", "path", "body", "allowed"), CALLS, ids=[f"{call[0]} {call[1]}" for call in CALLS])
def test_only_the_right_roles_get_past_policy(
    cloud: Cloud, accelerator: Accelerator, person: str, method: str, path: str, body: Any, allowed: set[str]
) -> None:
    answer = cloud.api(person, service="nova").request(path, method, json=body)
    assert answer.status_code < 500, answer.text
    assert (answer.status_code != 403) == (person in allowed), f"{answer.status_code}: {answer.text}"
