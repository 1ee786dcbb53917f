"""Whatever bytes a client sends, reading them ends in a value or in a 4xx that says what to mend."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import falcon.testing
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.stories.world import PERSON, World, fresh_database

from cantle.api import body, query
from cantle.api.settings import Settings
from cantle.api.v2.arq_patch import Op
from cantle.api.v2.device import DeviceQuery
from cantle.api.v2.device_profile import NewDeviceProfile
from cantle.errors import BadRequest

PROFILES = body.decoder(list[NewDeviceProfile])
ANYTHING = body.decoder(Any)
PATCHES = body.decoder(dict[str, list[Op]])

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.binary())
@example(b"")
@example(b"[" * 100_000)
@example(b'{"a":' * 100_000)
@example(b"1" * 5000)
@example(b'"\xed\xa0\x80"')
@example(b'["\\ud800"]')
@example(b'{"\\u0000": 1}')
@example(b"[1e999]")
@example(b"\xef\xbb\xbf[]")
@example("[]".encode("utf-16"))
@example(b"\x00")
def test_bytes_are_a_value_or_the_clients_mistake(raw: bytes) -> None:
    for decode in (PROFILES, ANYTHING, PATCHES):
        refusal = _refusal(lambda decode=decode: decode(raw))  # type: ignore[misc]
        if refusal is not None:
            assert refusal.code.startswith("body-")
            assert len(refusal.message) < 500


def _refusal(work: Callable[[], Any]) -> BadRequest | None:
    try:
        work()
    except BadRequest as error:
        return error
    return None


@given(json_values)
def test_what_is_read_is_what_was_sent(value: Any) -> None:
    raw = json.dumps(value).encode()
    refusal = _refusal(lambda: ANYTHING(raw))
    if refusal is None:
        assert ANYTHING(raw) == json.loads(raw)
    else:
        assert refusal.code in {"body-nul", "body-too-deep"} or (refusal.code == "body-not-json" and b"\\ud" in raw)


@given(st.integers(min_value=1, max_value=200))
def test_depth_is_counted_and_brackets_in_texts_are_not(depth: int) -> None:
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        raw = opening * depth + b"1" + closing * depth
        if depth > body.DEPTH:
            with pytest.raises(BadRequest, match="nests deeper"):
                ANYTHING(raw)
        else:
            ANYTHING(raw)
    text = '"[' * depth
    assert ANYTHING(json.dumps([text]).encode()) == [text]
    assert ANYTHING(json.dumps([{}] * depth).encode()) == [{}] * depth


@given(st.text(alphabet="abc=&%;+ü\0\udcff", max_size=60))
@example("limit=1&limit=2")
@example("%zz=%")
@example("filters.field=limit&filters.value=1&limit=2")
@example("&" * 300)
@example("a=1&" * 300)
def test_a_query_is_arguments_or_the_clients_mistake(text: str) -> None:
    refusal = _refusal(lambda: query.parse(text, DeviceQuery))
    codes = {"unknown-argument", "repeated-argument", "bad-argument", "query-not-text", "query-too-long"}
    assert refusal is None or refusal.code in codes


def test_a_query_that_is_too_long_is_refused() -> None:
    with pytest.raises(BadRequest) as refusal:
        query.parse("hostname=" + "a" * query.LONGEST, DeviceQuery)
    assert refusal.value.code == "query-too-long"


@pytest.fixture
def world(tmp_path: Any) -> Iterator[World]:
    """An empty cloud that reads bodies of at most 200 bytes."""
    db = fresh_database(tmp_path)
    yield World(db, Settings(body_limit=200, report_limit=400))
    db.close()


def _profile(size: int) -> bytes:
    start = b'[{"name": "a", "groups": [{"resources:VGPU": "1"}], "description": "'
    return start + b"x" * (size - len(start) - 3) + b'"}]'


def test_a_body_at_the_limit_is_read_and_one_byte_more_is_not(world: World) -> None:
    assert world.call("POST", "/v2/device_profiles", raw=_profile(200)).status_code == 201
    answer = world.call("POST", "/v2/device_profiles", raw=_profile(201))
    assert (answer.status_code, answer.headers["x-cantle-error-code"]) == (413, "body-too-large")


def test_an_agents_report_may_hold_no_nul_either(world: World) -> None:
    """PostgreSQL could not keep it, and the host's reports would fail for ever."""
    report = b'{"agent_start": "s", "digest": "d\\u0000", "devices": []}'
    answer = world.call("PUT", "/v1/hosts/h1/inventory", raw=report, agent=True)
    assert (answer.status_code, answer.headers["x-cantle-error-code"]) == (400, "body-nul")
    assert (
        world.call("PUT", "/v1/hosts/h1/inventory", raw=report.replace(b"\\u", b"\\\\u"), agent=True).status_code == 200
    )


def test_agents_have_a_limit_of_their_own(world: World) -> None:
    report = {"agent_start": "s", "digest": "d", "devices": []}
    path = "/v1/hosts/h1/inventory"
    assert world.call("PUT", path, body=report, agent=True).status_code == 200
    padded = msgspec.json.encode({**report, "digest": "d" * 400})
    assert world.call("PUT", path, raw=padded, agent=True).status_code == 413


@pytest.mark.parametrize("length", ["-1", "ten", "1e3", "+5", "99999999999999999999", "1_0", "\u0663"])
def test_a_length_that_is_none_is_refused(world: World, length: str) -> None:
    assert _bare(world, "POST", CONTENT_LENGTH=length) == "400 Bad Request"


def _bare(world: World, method: str, **extras: Any) -> str:
    """The status for a request that no decent server would pass on, past falcon's own checks of its test client."""
    environ = falcon.testing.create_environ(
        "/v2/device_profiles", method="POST", headers={"Content-Type": "application/json"}
    )
    environ.update(extras, REQUEST_METHOD=method)
    environ[PERSON] = "admin"
    answered = falcon.testing.StartResponseMock()
    b"".join(world.public(environ, answered))
    return str(answered.status)


def test_a_body_that_breaks_off_is_refused(world: World) -> None:
    answer = world.call("POST", "/v2/device_profiles", raw=_profile(100), extras={"CONTENT_LENGTH": "150"})
    assert (answer.status_code, answer.headers["x-cantle-error-code"]) == (400, "bad-content-length")


class _Stalled(io.BytesIO):
    """What a server shows of a client that sends no more."""

    def read(self, size: int | None = -1) -> bytes:  # noqa: ARG002 - a stream's
        raise TimeoutError("timed out")


def test_a_client_that_sends_no_more_is_not_a_failure_of_ours(world: World) -> None:
    answer = world.call("POST", "/v2/device_profiles", raw=_profile(100), extras={"wsgi.input": _Stalled()})
    assert (answer.status_code, answer.headers["x-cantle-error-code"]) == (400, "body-not-readable")


def test_a_body_in_chunks_is_read_up_to_the_limit(world: World) -> None:
    """Chunks have no length beforehand; the server decodes them and says so with ``wsgi.input_terminated``."""
    for size, status in ((100, 201), (201, 413)):
        extras = {"wsgi.input": io.BytesIO(_profile(size)), "wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
        headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
        assert world.call("POST", "/v2/device_profiles", headers=headers, extras=extras).status_code == status


def test_chunks_that_the_server_left_undecoded_are_refused(world: World) -> None:
    extras = {"wsgi.input": io.BytesIO(b"64\r\n" + _profile(100)), "CONTENT_LENGTH": ""}
    headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    answer = world.call("POST", "/v2/device_profiles", headers=headers, extras=extras)
    assert (answer.status_code, answer.headers["x-cantle-error-code"]) == (400, "body-length-needed")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 201),
        ("application/json; charset=utf-8", 201),
        ("APPLICATION/JSON", 201),
        ("application/json-patch+json", 201),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("json", 415),
    ],
)
def test_a_body_is_json_by_its_own_account(world: World, kind: str, status: int) -> None:
    """What a web form can send without asking first is never taken for a request."""
    answer = world.call("POST", "/v2/device_profiles", raw=_profile(100), headers={"Content-Type": kind})
    assert answer.status_code == status


def test_a_method_nobody_knows_is_refused(world: World) -> None:
    assert _bare(world, "EXPLODE") == "400 Bad Request"
