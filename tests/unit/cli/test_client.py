"""What the client makes of answers, good and bad."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cli.answering import Answer, Request, answering

from cantle import errors
from cantle.cli.client import Client, segment
from cantle.cli.failure import failure
from cantle.cli.main import cantle, run


@pytest.fixture
def connect() -> Iterator[Callable[..., Client]]:
    """Makes clients, and closes them in the end."""
    made: list[Client] = []

    def make(url: str, *, verbose: bool = False) -> Client:
        made.append(Client(url, verbose=verbose))
        return made[-1]

    yield make
    for client in made:
        client.close()


def v2(message: str) -> bytes:
    """An error body of the accelerator API: JSON text in JSON (contract section 1.2)."""
    return json.dumps(
        {"error_message": json.dumps({"faultcode": "Client", "faultstring": message, "debuginfo": None})}
    ).encode()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequest),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (406, errors.NotAcceptable),
        (409, errors.Conflict),
        (423, errors.Locked),
        (500, errors.CantleError),
        (503, errors.Unavailable),
        (418, errors.BadRequest),
    ],
)
def test_a_status_becomes_the_class_of_error_it_stands_for(status: int, kind: type[errors.CantleError]) -> None:
    assert type(failure(status, b"")) is kind


def test_the_accelerator_apis_doubly_encoded_error_is_unwrapped() -> None:
    error = failure(404, v2("There is no device profile 'gold'."), "profile-not-found")
    assert (error.code, error.message) == ("profile-not-found", "There is no device profile 'gold'.")


def test_a_problem_document_is_read() -> None:
    body = json.dumps(
        {"type": "urn:x", "title": "Conflict", "status": 409, "code": "no-capacity", "detail": "Nothing free."}
    ).encode()
    error = failure(409, body)
    assert (error.code, error.message) == ("no-capacity", "Nothing free.")


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>502</html>", b"null", b"[1]", b'{"error_message": "null"}', b'{"error_message": "<html>"}', b"\xff"],
)
def test_an_error_in_a_form_nobody_documented_still_says_its_status(body: bytes) -> None:
    error = failure(502, body)
    assert (error.code, error.message) == ("http-502", "The server answered 502 Bad Gateway.")


@given(st.integers(400, 599), st.binary())
def test_no_error_body_makes_the_client_fail_itself(status: int, body: bytes) -> None:
    assert failure(status, body).message


def test_a_request_says_what_it_takes_and_who_asks(connect: Callable[..., Client]) -> None:
    seen: list[Request] = []

    def answer(request: Request) -> Answer:
        seen.append(request)
        return Answer(201, b'{"uuid": "1"}')

    with answering(answer) as url:
        assert connect(url + "/accelerator/").post("/v1/leases", {"profile": "ä"}) == {"uuid": "1"}
    (request,) = seen
    assert (request.method, request.path, json.loads(request.body)) == (
        "POST",
        "/accelerator/v1/leases",
        {"profile": "ä"},
    )
    assert request.headers["OpenStack-API-Version"] == "accelerator 2.3"
    assert request.headers["User-Agent"].startswith("cantle/")


def test_a_token_said_for_one_command_counts_before_an_exported_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After ``export CANTLE_TOKEN_FILE=admin.token`` a revoked token in CANTLE_TOKEN still listed everything: as the administrator."""
    asked: list[str | None] = []

    def answer(request: Request) -> Answer:
        asked.append(request.headers.get("Authorization"))
        return Answer(200, b'{"leases": []}')

    (tmp_path / "admin.token").write_text("the-administrators")
    monkeypatch.setenv("CANTLE_TOKEN_FILE", str(tmp_path / "admin.token"))
    with answering(answer) as url:
        monkeypatch.setenv("CANTLE_URL", url)
        assert CliRunner().invoke(cantle, ["lease", "list"]).exit_code == 0
        monkeypatch.setenv("CANTLE_TOKEN", "a-members")
        assert CliRunner().invoke(cantle, ["lease", "list"]).exit_code == 0
        named = ["--token-file", str(tmp_path / "admin.token"), "lease", "list"]
        assert CliRunner().invoke(cantle, named).exit_code == 0
    assert asked == ["Bearer the-administrators", "Bearer a-members", "Bearer the-administrators"]


def test_an_empty_answer_is_nothing(connect: Callable[..., Client]) -> None:
    with answering(lambda _: Answer(204, b"")) as url:
        connect(url).delete("/v2/device_profiles/gold")
        assert connect(url).post("/v1/x") is None


def test_arguments_without_a_value_are_left_out_of_the_address(connect: Callable[..., Client]) -> None:
    seen: list[str] = []

    def answer(request: Request) -> Answer:
        seen.append(request.path)
        return Answer()

    with answering(answer) as url:
        connect(url).get("/v1/devices", {"hostname": "a b&c", "type": None})
    assert seen == ["/v1/devices?hostname=a+b%26c"]


@given(st.text(min_size=1).filter(lambda text: not any("\ud800" <= one <= "\udfff" for one in text)))
def test_a_name_stays_one_segment_of_the_path_whatever_it_holds(name: str) -> None:
    if "/" in name:
        with pytest.raises(errors.NotFound):
            segment(name)
    else:
        assert not set(segment(name)) & set("/?# \n")


def test_a_name_with_a_slash_is_told_as_it_was_typed() -> None:
    """It was asked for as ``a%2Fb``, and the server's complaint named that."""
    with pytest.raises(errors.NotFound, match="named 'a/b'"):
        segment("a/b")


def test_a_lost_answer_to_a_creating_call_is_asked_for_again_under_the_same_key(connect: Callable[..., Client]) -> None:
    """The server hangs up in place of its first answer; had the client made a new key, there would be two leases."""
    keys: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_the_second_time() -> None:
            for number in range(2):
                connection, _ = server.accept()
                with connection, connection.makefile("rb") as lines:
                    headers = [line.decode() for line in iter(lines.readline, b"\r\n")]
                    keys.extend(line.partition(": ")[2] for line in headers if line.startswith("Idempotency-Key"))
                    if number:
                        connection.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}")

        thread = threading.Thread(target=answer_the_second_time)
        thread.start()
        assert connect(f"http://127.0.0.1:{server.getsockname()[1]}").create("/v1/leases", {"profile": "p"}) == {}
        thread.join(20)
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_a_list_is_read_page_after_page_and_no_further_than_it_is_used(connect: Callable[..., Client]) -> None:
    asked: list[str] = []

    def answer(request: Request) -> Answer:
        asked.append(request.path)
        page = len(asked)
        # The server takes itself to be somewhere else: what counts is what to ask next.
        links = [{"href": f"https://elsewhere.example/v1/devices?limit=2&marker=m{page}", "rel": "next"}]
        content = {"devices": [{"uuid": f"{page}a"}, {"uuid": f"{page}b"}], "devices_links": links if page < 3 else []}
        return Answer(200, json.dumps(content).encode())

    with answering(answer) as url:
        rows = connect(url).pages("/v1/devices", "devices", {"hostname": "h1", "type": None})
        assert [next(rows)["uuid"] for _ in range(3)] == ["1a", "1b", "2a"]
        assert asked == ["/v1/devices?hostname=h1", "/v1/devices?limit=2&marker=m1"]
        assert [row["uuid"] for row in rows] == ["2b", "3a", "3b"]


def test_an_answer_that_is_no_json_comes_from_no_cantle_server(connect: Callable[..., Client]) -> None:
    with answering(lambda _: Answer(200, b"<html>")) as url, pytest.raises(errors.Unavailable) as caught:
        connect(url).get("/v1/hosts")
    assert caught.value.code == "not-a-cantle-server"


def test_a_server_that_hangs_up_is_away(connect: Callable[..., Client]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            connection, _ = server.accept()
            connection.close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(errors.Unavailable) as caught:
            connect(f"http://127.0.0.1:{server.getsockname()[1]}").get("/v1/hosts")
        thread.join()
    assert caught.value.code == "server-unavailable"


def test_a_server_that_never_answers_is_given_up(
    connect: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cantle.cli.client.TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(errors.Unavailable) as caught:
        connect(f"http://127.0.0.1:{server.getsockname()[1]}").get("/v1/hosts")
    assert caught.value.code == "server-timeout"


def test_verbose_tells_each_request(connect: Callable[..., Client], capsys: pytest.CaptureFixture[str]) -> None:
    with answering(lambda _: Answer()) as url:
        connect(url, verbose=True).get("/v1/hosts")
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.startswith(f"GET {url}/v1/hosts -> 200 in ")


def test_one_client_uses_one_connection_for_all_its_requests(connect: Callable[..., Client]) -> None:
    ports: list[Any] = []

    def answer(request: Request) -> Answer:
        ports.append(threading.current_thread().ident)
        return Answer()

    with answering(answer) as url:
        client = connect(url)
        client.get("/v1/hosts")
        client.get("/v1/hosts")
    assert len(set(ports)) == 1


@pytest.mark.parametrize(
    "url", ["http://exa mple", "http://a..b", f"http://{'a' * 300}", "http://h/p q", "http://h/\xe4", "http://[::1"]
)
def test_an_address_that_cannot_be_one_is_a_mistake_not_a_fault_in_cantle(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["--url", url, "host", "list"]) == 2
    assert "is no address of a server" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["device", "show", "\udcff"],
        ["lease", "show", "\udcff"],
        ["lease", "list", "--workload", "x\udcff"],
        ["lease", "create", "small", "--workload", "x\udcff"],
    ],
)
def test_bytes_that_are_no_utf_8_are_named_as_such_not_as_malformed_json_or_a_fault(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(lambda _: Answer(500)) as url:
        assert run(["--url", url, *words]) == 2
    assert "is not text in UTF-8. [usage-error]" in capsys.readouterr().err


def test_a_limit_beyond_all_numbers_prints_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(lambda _: Answer(200, b'{"hosts": [{"hostname": "gpu1"}]}')) as url:
        assert run(["--url", url, "host", "list", "--limit", "9" * 30, "-c", "hostname", "-o", "value"]) == 0
    assert capsys.readouterr().out == "gpu1\n"
