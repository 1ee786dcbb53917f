"""``/v1/events`` as server-sent events over real HTTP: as they happen, taken up again without a gap, and one waiting place each."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.stories.world import World
from tests.unit.api.served import served

from cantle.api.settings import Settings
from cantle.cli.client import Client
from cantle.cli.follow import follow

Event = tuple[str, str, dict[str, object]]


@contextmanager
def listening(url: str, last: str | None = None, query: str = "") -> Iterator[Iterator[Event]]:
    """Events as a browser gets them: id, event, data."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
    connection.request("GET", f"/v1/events{query}", headers=headers)
    response = connection.getresponse()
    assert (response.status, response.getheader("Content-Type")) == (200, "text/event-stream")
    assert response.getheader("Cache-Control") == "no-store"
    try:
        yield events(response)
    finally:
        response.close()
        connection.close()


def events(response: http.client.HTTPResponse) -> Iterator[Event]:
    found: dict[str, str] = {}
    while line := response.readline().decode():
        field, _, value = line.rstrip("\n").partition(": ")
        if field:
            found[field] = value
            continue
        if "data" in found:
            yield found["id"], found["event"], json.loads(found["data"])
        found = {}


def profile(world: World, name: str) -> None:
    """Something that happens."""
    body = [{"name": name, "groups": [{"resources:VGPU": "1"}]}]
    assert world.call("POST", "/v2/device_profiles", body=body).status_code == 201


def test_what_happens_comes_as_it_happens_and_is_taken_up_again_without_a_gap(tmp_path: Path) -> None:
    with served(tmp_path, Settings(longest_wait=2)) as (url, world):
        with listening(url) as stream:
            profile(world, "one")
            name, action, data = next(stream)
            assert (action, data["user_id"], data["facts"]) == (
                "profile.create",
                "admin",
                {"name": "one", "uuid": data["facts"]["uuid"]},  # type: ignore[index]
            )
            assert data["uuid"] == name
        profile(world, "two")
        profile(world, "three")
        with listening(url, name) as stream:
            missed = [next(stream)[2]["facts"]["name"] for _ in range(2)]  # type: ignore[index]
            assert missed == ["two", "three"]


@pytest.mark.parametrize("before", [(), ("old",)])
def test_whoever_loses_a_stream_before_anything_has_happened_misses_nothing_either(
    tmp_path: Path, before: tuple[str, ...]
) -> None:
    """`cantle events --follow` lost what happened between its first stream, if that was silent, and the second."""
    with served(tmp_path, Settings(longest_wait=1)) as (url, world):
        for name in before:
            profile(world, name)
        client = Client(url)
        first = list(client.lines("/v1/events", last_event_id=None, silence=30))
        (begin,) = (line.removeprefix("id: ") for line in first if line.startswith("id: "))
        assert not any(line.startswith("data: ") for line in first)
        profile(world, "between")
        with listening(url, begin) as stream:
            assert [next(stream)[2]["facts"]["name"]] == ["between"]  # type: ignore[index]
        client.close()


def test_the_command_comes_back_with_where_it_was_and_tells_nothing_twice() -> None:
    """A server that cuts the first stream, and a proxy that says it is away, before anything has happened; then one that repeats itself."""
    asked: list[str | None] = []
    first, second = (f'id: {name}\nevent: profile.create\ndata: {{"name": "{name}"}}\n\n' for name in ("one", "two"))
    answers = [(200, "retry: 1000\nid: where-it-began\n\n"), (503, ""), (200, first), (200, first + second)]

    class Cutting(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Last-Event-ID"])
            status, text = answers.pop(0)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Nobody reads it."""

    def serve(server: HTTPServer) -> None:
        while answers:
            server.handle_request()

    with HTTPServer(("127.0.0.1", 0), Cutting) as server, ThreadPoolExecutor(1) as pool:
        serving = pool.submit(serve, server)
        client = Client(f"http://127.0.0.1:{server.server_port}")
        following = follow(client, "/v1/events", {})
        assert [next(following)["name"], next(following)["name"]] == ["one", "two"]
        serving.result(30)
        client.close()
    assert asked == [None, "where-it-began", "where-it-began", "one"]


def test_only_what_concerns_one_lease(tmp_path: Path) -> None:
    with served(tmp_path, Settings(longest_wait=2)) as (url, world):
        profile(world, "vgpu")
        lease = world.call("POST", "/v1/leases", body={"profile": "vgpu"}).json["uuid"]
        with listening(url, query=f"?about={lease}") as stream:
            profile(world, "other")
            world.call("POST", f"/v1/leases/{lease}/release")
            assert next(stream)[1] == "lease.release"


def test_a_stream_takes_a_waiting_place_and_gives_it_back_when_it_ends(tmp_path: Path) -> None:
    with served(tmp_path, Settings(parked_slots=1, longest_wait=1)) as (url, world):
        parts = urlsplit(url)
        with listening(url) as stream:
            other = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
            other.request("GET", "/v1/events", headers={"Accept": "text/event-stream"})
            refused = other.getresponse()
            other.close()
            assert refused.status == 503
            assert refused.getheader("X-Cantle-Error-Code") == "no-waiting-place"
            assert 1 <= int(refused.getheader("Retry-After", "0")) <= 5
            assert list(stream) == [], "it ends after a while, so that servers can be drained"
        with listening(url) as stream:
            profile(world, "one")
            assert next(stream)[1] == "profile.create"


def test_the_list_and_the_stream_are_one_resource(tmp_path: Path) -> None:
    with served(tmp_path, Settings(longest_wait=2)) as (url, _world):
        client = Client(url)
        assert client.get("/v1/events") == {"events": []}
        client.close()


@pytest.mark.parametrize("query", ["?channel=nova", "?limit=3", "?ended=true"])
def test_a_stream_refuses_what_is_for_the_list(tmp_path: Path, query: str) -> None:
    with served(tmp_path, Settings(longest_wait=2)) as (url, _world):
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        connection.request("GET", f"/v1/events{query}", headers={"Accept": "text/event-stream"})
        answer = connection.getresponse()
        connection.close()
        assert answer.getheader("X-Cantle-Error-Code") == "bad-argument"


@pytest.mark.parametrize("last", ["0", "-1", "99999999999999999999", "../../etc", "' OR 1=1", "x" * 4000, "caf\xe9"])
def test_a_last_event_id_that_was_none_of_ours_does_not_bring_the_whole_log(tmp_path: Path, last: str) -> None:
    with served(tmp_path, Settings(longest_wait=2)) as (url, world):
        profile(world, "one")
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
        connection.request("GET", "/v1/events", headers={"Accept": "text/event-stream", "Last-Event-ID": last})
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("X-Cantle-Error-Code")) == (400, "bad-uuid")
        connection.close()


def test_the_command_follows_over_streams_that_end_and_misses_nothing(tmp_path: Path) -> None:
    """Each stream ends after a second; what happens between two of them is in the next."""
    with served(tmp_path, Settings(longest_wait=1)) as (url, world), ThreadPoolExecutor(1) as pool:
        client = Client(url)
        following = follow(client, "/v1/events", {})
        first = pool.submit(next, following)
        profile(world, "first")
        while not first.done():  # it may not have been there yet
            profile(world, f"again-{time.monotonic_ns()}")
            wait([first], timeout=0.2)
        for name in ("a", "b", "c"):
            profile(world, name)
        names: list[str] = []
        while names[-3:] != ["a", "b", "c"]:
            names.append(pool.submit(next, following).result(30)["facts"]["name"])
        assert len(names) == len(set(names))
        client.close()
