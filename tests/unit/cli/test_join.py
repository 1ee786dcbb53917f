"""Two hosts: one serves, the other joins it with a code that is good once, and lends its cards."""

from __future__ import annotations

import json
import re
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from tests.unit.cli.serving import CANTLE, CONFIG, PATIENCE, Done, Serving, cantle, clean, serving

from cantle.agent.client import Client
from cantle.agent.desired import Desired, DesiredFile
from cantle.agent.join import join
from cantle.agent.joined import load, trust
from cantle.cli.exit_codes import ExitCode
from cantle.errors import BadConfig, BadRequest, CantleError, Forbidden, NotFound, Unavailable
from cantle.model.certificate import fingerprint
from cantle.wire.work import Work


class Authority(NamedTuple):
    """A private authority, and a certificate it signed for ``localhost``."""

    ca: trustme.CA
    files: Path

    def options(self, ca: Path | None) -> list[str]:
        """Those of ``cantle serve``, which says that ``ca`` is its authority."""
        cert, key = self.files / "cert.pem", self.files / "key.pem"
        return ["--tls-cert", str(cert), "--tls-key", str(key), "--tls-ca", str(ca or self.files / "ca.pem")]

    @property
    def fingerprint(self) -> str:
        """Of the authority's own certificate."""
        return fingerprint(self.ca.cert_pem.bytes().decode())


def authority(place: Path, *names: str) -> Authority:
    """A new one."""
    place.mkdir(exist_ok=True)
    ca = trustme.CA()
    made = ca.issue_cert(*(names or ("localhost", "127.0.0.1")))
    ca.cert_pem.write_to_path(place / "ca.pem")
    made.private_key_pem.write_to_path(place / "key.pem")
    (place / "cert.pem").write_bytes(b"".join(one.bytes() for one in made.cert_chain_pems))
    return Authority(ca, place)


class Server(NamedTuple):
    """A server that answers agents of other hosts."""

    serving: Serving
    agents: str
    authority: Authority

    def invite(self, host: str, *more: str) -> str:
        """A code for that host."""
        done = self.serving.cantle("host", "invite", host, "-c", "code", "-o", "value", *more)
        assert done.code == 0, done
        return done.out.strip()


@contextmanager
def server(place: Path, *more: str, pretended: Path | None = None) -> Iterator[Server]:
    """One with TLS, without hosts of its own."""
    signed = authority(place / "tls")
    options = ["--agents-listen", "127.0.0.1:0", *signed.options(pretended), *more]
    with serving(place, *options, CANTLE_CA_FILE=str(place / "tls" / "ca.pem")) as running:
        assert running.process.stdout is not None
        url = running.process.stdout.readline().split()[-1].replace("127.0.0.1", "localhost")
        yield Server(Https(running, str(place / "tls" / "ca.pem")), url, signed)


class Https(Serving):
    """A running server whose commands trust the private authority."""

    def __new__(cls, running: Serving, ca: str) -> Https:
        """The same server."""
        made = super().__new__(cls, running.process, running.url.replace("127.0.0.1", "localhost"), running.state)
        made.ca = ca
        return made

    ca: str

    def cantle(self, *arguments: str) -> Done:
        """See the base class."""
        return cantle("--ca-file", self.ca, *arguments, CANTLE_URL=self.url)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests that leave it as it is."""
    with server(tmp_path_factory.mktemp("join")) as running:
        yield running


def refused(where: Server, code: str, **how: str) -> CantleError:
    """Why joining was refused."""
    with pytest.raises(CantleError) as caught:
        join(where.agents, code, **how)
    return caught.value


@contextmanager
def agent(state: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """``cantle agent run`` of a simulated host, with what joining left in ``state`` and no other options."""
    config = state / "agent.conf"
    config.write_text(CONFIG)
    command = [
        *CANTLE,
        "agent",
        "run",
        "--state-dir",
        str(state),
        "--simulate",
        "t4",
        "--config-file",
        str(config),
        *more,
    ]
    with (
        (state / "agent.log").open("a") as log,
        subprocess.Popen(command, stderr=log, text=True, env=clean({})) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def until(server: Server, *arguments: str, holds: str) -> str:
    """Ask again and again until the answer holds that."""
    deadline = time.monotonic() + PATIENCE
    while holds not in (out := server.serving.cantle(*arguments).out):
        assert time.monotonic() < deadline, out
        time.sleep(0.05)
    return out


def test_a_second_host_joins_lends_its_cards_and_its_code_is_good_once(tmp_path: Path) -> None:
    """The whole story, over TLS with a private authority that is known by its fingerprint alone."""
    with server(tmp_path) as running:
        state = tmp_path / "second"
        said = running.serving.cantle("host", "invite", "gpu2")
        command = re.search(r"cantle (agent join .*)", said.err)
        assert command is not None
        words = command[1].replace(socket.getfqdn(), "localhost").replace("127.0.0.1", "localhost").split()
        joined = cantle(*words, "--state-dir", str(state))
        assert joined.code == 0, joined
        assert f"joined {running.agents} as gpu2" in joined.out
        kept = state / "agents" / "joined.json"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert (again := cantle(*words, "--state-dir", str(tmp_path / "third"))).code == ExitCode.FORBIDDEN
        assert "[token-not-valid]" in again.err
        assert "cantle host invite" in again.err
        with agent(state):
            until(running, "capacity", "--host", "gpu2", holds="VGPU")
            made = running.serving.json("profile", "create", "small", "--group", "resources:VGPU=1")
            assert made["name"] == "small"
            lease = running.serving.json("lease", "create", "small", "--host", "gpu2", "--wait")
            assert (lease["state"], lease["hostname"]) == ("active", "gpu2")
        secret = json.loads(kept.read_text())["token"]
        log = (tmp_path / "serve.log").read_text() + (state / "agent.log").read_text()
        assert secret[-43:] not in log
        assert words[4][-43:] not in log


def test_whoever_joins_as_a_host_later_is_the_host(shared: Server, tmp_path: Path) -> None:
    """A machine that was replaced cannot speak for its successor."""
    ca = shared.authority.ca.cert_pem.bytes().decode()
    first = join(shared.agents, shared.invite("gpu3"), ca=ca)
    second = join(shared.agents, shared.invite("gpu3"), ca=ca)
    assert first.token != second.token
    rows = shared.serving.json("token", "list", "--all")
    states = [(row["role"], row["state"]) for row in rows if row["hostname"] == "gpu3"]
    assert states == [("join", "revoked"), ("agent", "revoked"), ("join", "revoked"), ("agent", "valid")]


def test_two_who_use_one_code_at_once_get_one_token(shared: Server) -> None:
    code, ca = shared.invite("gpu4"), shared.authority.ca.cert_pem.bytes().decode()
    ends: list[object] = []

    def use() -> None:
        try:
            ends.append(join(shared.agents, code, ca=ca).host)
        except CantleError as error:
            ends.append(error.code)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(map(str, ends)) == ["gpu4", "token-not-valid", "token-not-valid", "token-not-valid"]


def test_a_fingerprint_may_be_written_as_openssl_prints_it(shared: Server) -> None:
    plain = shared.authority.fingerprint.removeprefix("sha256:").upper()
    colons = ":".join(plain[place : place + 2] for place in range(0, 64, 2))
    assert join(shared.agents, shared.invite("gpu5"), fingerprint=f"SHA256 Fingerprint={colons}").host == "gpu5"


def test_an_authority_with_another_fingerprint_is_told_and_the_code_is_not_sent(shared: Server) -> None:
    code = shared.invite("gpu6")
    error = refused(shared, code, fingerprint="sha256:" + "0" * 64)
    assert (type(error), error.code) == (Forbidden, "authority-not-the-one")
    assert shared.authority.fingerprint in error.message
    assert join(shared.agents, code, fingerprint=shared.authority.fingerprint).host == "gpu6"


def test_somebody_in_between_who_shows_the_right_authority_and_another_certificate_gets_no_code(
    shared: Server, tmp_path: Path
) -> None:
    """Anybody can copy the authority's certificate; nobody else has one that it signed."""
    with server(tmp_path, pretended=shared.authority.files / "ca.pem") as impostor:
        code = shared.invite("gpu7")
        error = refused(impostor, code, fingerprint=shared.authority.fingerprint)
        assert (type(error), error.code) == (Unavailable, "server-not-trusted")
        assert join(shared.agents, code, fingerprint=shared.authority.fingerprint).host == "gpu7"


@pytest.mark.parametrize(
    ("url", "how", "kind", "code"),
    [
        ("http://cantle.example:6667", {}, BadConfig, "join-needs-tls"),
        ("http://127.0.0.1:9", {"fingerprint": "0" * 64}, BadConfig, "join-needs-tls"),
        ("ftp://cantle.example", {}, BadConfig, "agent-server-url"),
        ("https://", {}, BadConfig, "agent-server-url"),
        ("https://127.0.0.1:9", {"fingerprint": "sha256:12"}, BadRequest, "bad-fingerprint"),
        ("https://127.0.0.1:9", {"fingerprint": "0" * 64}, Unavailable, "server-away"),
        ("https://127.0.0.1:9", {"ca": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"}, BadConfig, "ca-file-unusable"),
    ],
)  # fmt: skip
def test_what_cannot_be_joined_is_told(url: str, how: dict[str, str], kind: type[CantleError], code: str) -> None:
    with pytest.raises(kind) as caught:
        join(url, "cantle_x", **how)
    assert caught.value.code == code


def test_the_address_of_the_clients_api_is_told_from_that_of_the_agents_listener(shared: Server) -> None:
    with pytest.raises(NotFound, match="--agents-listen"):
        join(shared.serving.url, shared.invite("gpu8"), fingerprint=shared.authority.fingerprint)


def test_without_a_fingerprint_a_private_authority_is_not_trusted(shared: Server) -> None:
    assert refused(shared, shared.invite("gpu8")).code == "server-not-trusted"


def test_a_client_that_says_nothing_holds_up_nobody(shared: Server) -> None:
    """Not even before its handshake: that is left to the thread that serves it."""
    port = int(shared.agents.rpartition(":")[2])
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    try:
        assert join(shared.agents, shared.invite("gpu9"), fingerprint=shared.authority.fingerprint).host == "gpu9"
        for one in silent:  # the server still waits for a word of theirs
            one.setblocking(False)
            with pytest.raises(BlockingIOError):
                one.recv(1)
    finally:
        for one in silent:
            one.close()


def test_a_server_that_asks_for_certificates_answers_nobody_without_one(tmp_path: Path) -> None:
    of_hosts = authority(tmp_path / "hosts")
    with server(tmp_path, "--agents-client-ca", str(of_hosts.files / "ca.pem")) as running:
        code = running.invite("gpu2")
        error = refused(running, code, fingerprint=running.authority.fingerprint)
        assert (type(error), error.code) == (Unavailable, "client-certificate-needed")
        assert "--cert" in error.message
        shown = of_hosts.ca.issue_cert("gpu2")
        shown.private_key_and_cert_chain_pem.write_to_path(tmp_path / "gpu2.pem")
        how = {"fingerprint": running.authority.fingerprint, "cert": str(tmp_path / "gpu2.pem")}
        assert join(running.agents, code, **how).host == "gpu2"


def test_an_agent_with_nothing_to_show_ends_where_a_certificate_is_asked_for_and_one_that_joined_tries_again(
    tmp_path: Path,
) -> None:
    """Both went on for ever, and said that nobody answered."""
    of_hosts = authority(tmp_path / "hosts")
    with server(tmp_path, "--agents-client-ca", str(of_hosts.files / "ca.pem")) as running:
        ca = running.authority.files / "ca.pem"
        done = run_to_its_end(running, tmp_path)
        assert (done.code, "[client-certificate-needed]" in done.err) == (ExitCode.CONFIG, True)
        assert "--cert and --key" in done.err
        client = Client(running.agents, "gpu2", "a-token", trust(ca.read_text()))
        with pytest.raises(Unavailable) as caught:
            client.work()
        client.disconnect()
        assert caught.value.code == "client-certificate-needed"


def test_an_agent_without_a_token_ends_and_is_told_how_to_get_one(shared: Server, tmp_path: Path) -> None:
    """It went on for ever."""
    done = run_to_its_end(shared, tmp_path)
    assert (done.code, "[agent-token-missing]" in done.err) == (ExitCode.CONFIG, True)
    assert "cantle agent join" in done.err


def run_to_its_end(where: Server, state: Path) -> Done:
    """``cantle agent run`` of a host that never joined."""
    how = ["--ca-file", str(where.authority.files / "ca.pem"), "--state-dir", str(state / "gpu2"), "--simulate", "t4"]
    return cantle("agent", "run", "--server", where.agents, *how)


def test_a_host_that_joins_under_another_name_takes_its_memory_along(shared: Server, tmp_path: Path) -> None:
    """`cantle host rename` on the server, then this: what it lends is still known after the next boot."""
    how = ["--ca-file", str(shared.authority.files / "ca.pem"), "--state-dir", str(tmp_path)]
    assert cantle("agent", "join", shared.agents, "--code", shared.invite("old"), *how).code == 0
    memory = tmp_path / "agents" / "old"
    with DesiredFile(memory).held():
        DesiredFile(memory).save(Desired(work=Work(7)))
    done = cantle("agent", "join", shared.agents, "--code", shared.invite("new"), *how)
    assert (done.code, "remembered as old is new's now" in done.err) == (0, True)
    assert DesiredFile(tmp_path / "agents" / "new").load().work == Work(7)
    assert not memory.exists()


def test_a_host_that_never_joined_is_told_how(tmp_path: Path) -> None:
    done = cantle("agent", "run", "--state-dir", str(tmp_path), "--simulate", "t4")
    assert (done.code, "[agent-not-joined]" in done.err) == (ExitCode.CONFIG, True)
    assert load(tmp_path) is None
    (tmp_path / "agents").mkdir(exist_ok=True)
    (tmp_path / "agents" / "joined.json").write_text("{")
    done = cantle("agent", "run", "--state-dir", str(tmp_path), "--simulate", "t4")
    assert (done.code, "[joined-unusable]" in done.err) == (ExitCode.CONFIG, True)
