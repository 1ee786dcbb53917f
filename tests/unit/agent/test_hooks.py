"""Guests that others start: the hooks as they are installed, run as libvirt and LXC run them, and a real agent at its socket."""

from __future__ import annotations

import errno
import json
import os
import shlex
import socket
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.unit.agent.service import M40, T4, Service, running, until

from cantle import simulate
from cantle.agent.local import AT_ONCE, Local
from cantle.attach import lxc
from cantle.attach.hooks import installed
from cantle.engine.lease import create_lease
from cantle.kernel import local_socket, mdev
from cantle.kernel.root import Root
from cantle.model.attachment import Attachment
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.lease import Lease, LeaseState
from cantle.wire.hook import LENT, LIMIT, SOCKET, Answer, Question

#: Longer than any test may take: a hook that waited would be noticed.
FOR_EVER = 60.0
#: As short as an agent may be waited for.
SHORT = 1.0


@pytest.fixture
def host(t4: simulate.SimulatedRoot) -> simulate.SimulatedRoot:
    """The host of the worked example, with a container that is stopped."""
    place = Path(t4.path)
    (place / "var/lib/lxc/c1").mkdir(parents=True)
    (place / "var/lib/lxc/c1/config").write_text("lxc.uts.name = c1\n")
    (place / "sys/fs/cgroup").mkdir(parents=True)
    (place / "sys/fs/cgroup/cgroup.controllers").write_text("cpu\n")
    return t4


def install(root: Root, *, seconds: float = FOR_EVER) -> None:
    """The hooks below the tree; what they say of their own places is right on a host alone, so they are told where they are."""
    for one in installed.hooks(root, seconds=seconds, directory=f"{root.path}/run/cantle"):
        text = one.text.replace(f"/{installed.ASK}", shlex.quote(f"{root.path}/{installed.ASK}"))
        root.replace(one.place, text.encode(), 0o755)


def run(root: Root, hook: str, *words: str, xml: str = "") -> str:
    """What a hook says where its manager keeps it. It must end well, and before `FOR_EVER`."""
    argv = [f"{root.path}/{hook}", *words]
    done = subprocess.run(argv, input=xml, capture_output=True, text=True, check=False, timeout=FOR_EVER / 2)
    kept, other = (done.stdout, done.stderr) if hook == installed.LXC else (done.stderr, done.stdout)
    assert (done.returncode, other) == (0, "")
    return kept


def starts(root: Root, name: str, *devices: str) -> str:
    """libvirt starts a domain."""
    hostdevs = "".join(f"<hostdev><source>{device}</source></hostdev>" for device in devices)
    xml = f"<domain><name>{name}</name><devices>{hostdevs}</devices></domain>"
    return run(root, installed.LIBVIRT, name, "prepare", "begin", "-", xml=xml)


@contextmanager
def connected(root: Root) -> Iterator[socket.socket]:
    """A connection to the agent. An address has room for 107 bytes, so it goes by the directory."""
    place = os.open(Path(root.path, SOCKET).parent, os.O_RDONLY | os.O_DIRECTORY)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(FOR_EVER / 2)
        connection.connect(f"/proc/self/fd/{place}/{Path(SOCKET).name}")
        os.close(place)
        yield connection


def ask(root: Root, line: bytes) -> Any:
    """The answer to whatever is sent."""
    with connected(root) as connection:
        connection.sendall(line)
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answer:
            return json.loads(answer.read())


def question(**fields: Any) -> bytes:
    return json.dumps({"event": "starting", "kind": "libvirt", "name": "v1", **fields}).encode() + b"\n"


def lend(service: Service, profile: str = "slice", attach: str | None = None) -> Lease:
    """A lease that is active."""
    until(lambda: {"slice": T4, "card": M40}[profile] in service.free())
    into = Attachment.parse(attach) if attach else None
    found = service.settled(create_lease(service.db, LOCAL_ADMIN, profile_name=profile, attachment=into).uuid)
    assert found.state is LeaseState.ACTIVE, found
    return found


def unit(lease: Lease) -> str:
    found = lease.arqs[0].attach_handle_uuid
    assert found is not None
    return found


def test_a_guest_that_another_tool_starts_finds_its_slice_though_somebody_removed_it(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    install(host)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        slice_ = unit(lend(service))
        mdev.remove(host, slice_)
        assert starts(host, "stranger") == ""
        assert mdev.devices(host) == []
        assert starts(host, "v1", f'<address uuid="{slice_.upper()}"/>') == ""
        assert [one.uuid for one in mdev.devices(host)] == [slice_]
        assert run(host, installed.LIBVIRT, "v1", "release", "end", "-", xml="") == ""


@pytest.mark.parametrize(
    "name", ["--seconds=0", "-h", "v1; touch {0}", "$(touch {0})", "a b'\"\\`touch {0}`", "v1\nv2 #"]
)
def test_a_domain_is_asked_about_whatever_its_name_is(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path, name: str
) -> None:
    install(host)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        slice_ = unit(lend(service))
        mdev.remove(host, slice_)
        xml = f'<domain><devices><hostdev><source><address uuid="{slice_}"/></source></hostdev></devices></domain>'
        made = tmp_path / "made"
        assert run(host, installed.LIBVIRT, name.format(made), "prepare", "begin", "-", xml=xml) == ""
        assert [one.uuid for one in mdev.devices(host)] == [slice_]
        assert not made.exists()


def test_a_container_is_asked_about_at_its_start_and_its_book_has_the_numbers_of_now(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    install(host)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        lease = lend(service, "card", "lxc:c1")
        place = Path(host.path, lxc.book("c1", lease.uuid))
        [hook] = [line for line in place.read_text().split("\n") if line.startswith("lxc.hook.pre-start = ")]
        assert f"starting c1 {lease.uuid} " in hook
        assert "195:1" in hook
        before = lxc.parse_entries(place.read_text())
        devices = Path(host.path, "proc/devices")
        text = devices.read_text().replace("195 nvidia", "240 nvidia")
        devices.unlink()
        devices.write_text(text)
        words = hook.partition(" = ")[2].split()
        assert run(host, installed.LXC, *words[1:], "c1", "lxc", "pre-start") == ""
        after = {one.path: one.major for one in lxc.parse_entries(place.read_text())}
        assert {one.path: one.major for one in before} != after
        assert after["/dev/nvidia1"] == 240
        said = [line for line in place.read_text().split("\n") if line.startswith("lxc.hook.pre-start = ")]
        assert "240:1" in said[0]
        assert "195" not in place.read_text()


def test_a_hook_that_names_no_lease_leaves_nothing_that_would_keep_the_container_its_card(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    """Written into the configuration by hand: what it left looked like another lease of the same container's."""
    install(host)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        book = Path(host.path, lxc.book("c1", lend(service, "card", "lxc:c1").uuid))
        before = book.read_text()
        book.write_text("of before\n")
        assert run(host, installed.LXC, "starting", "c1", "", "", "c1", "lxc", "pre-start") == ""
        assert book.read_text() == before
        assert [one.name for one in book.parent.iterdir()] == [book.name]


def test_what_cannot_be_made_ready_is_said_and_the_guest_starts(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    install(host)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        slice_ = unit(lend(service))
        mdev.remove(host, slice_)
        host.fail(errno.ENOSPC, "/create")
        said = starts(host, "v1", f'<address uuid="{slice_}"/>')
        assert f"libvirt:v1 starts, and {slice_} on {T4} is not ready: " in said


def test_who_asks_what_a_guest_has_is_told_and_nothing_is_done(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        lease = lend(service, "card", "lxc:c1")
        slice_ = unit(lend(service))
        told = ask(host, question(event="leases", kind="lxc", name="c1"))
        assert [(one["lease"], one["ready"]) for one in told["units"]] == [(lease.uuid, True)]
        mdev.remove(host, slice_)
        told = ask(host, question(event="leases", units=[slice_]))
        assert [(one["uuid"], one["ready"], one["code"]) for one in told["units"]] == [
            (slice_, False, "unit-not-ready")
        ]
        assert mdev.devices(host) == []
        assert ask(host, question(event="leases", name="stranger"))["units"] == []


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"GET / HTTP/1.1\r\n",
        b"{}\n",
        b"[1, 2]\n",
        b"\xff\xfe\x00\n",
        b'{"event": "destroy", "kind": "lxc", "name": "c1"}\n',
        question(unknown=1),
        question(seconds=1e9),
        question(seconds=-1),
        question(name="x" * 1000),
        question(units=["x"] * 1000),
        b"x" * (LIMIT + 2),
    ],
)
def test_what_is_no_question_is_refused_and_the_next_one_is_answered(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path, line: bytes
) -> None:
    answers = Local(host, SOCKET, lambda asked: Answer(message=asked.name))
    assert answers.start()
    try:
        assert ask(host, line)["code"] == "hook-question-unreadable"
        assert ask(host, question()) == {"units": [], "code": None, "message": "v1"}
    finally:
        answers.stop()
    assert not Path(host.path, SOCKET).exists()


def test_only_so_many_are_answered_at_once_and_one_more_is_answered_after_them(t4: simulate.SimulatedRoot) -> None:
    go_on = threading.Event()
    begun = threading.Semaphore(0)

    def slow(asked: Question) -> Answer:
        begun.release()
        go_on.wait(FOR_EVER)
        return Answer()

    answers = Local(t4, SOCKET, slow)
    answers.start()
    try:
        with ExitStack() as stack:
            for _ in range(AT_ONCE + 1):
                stack.enter_context(connected(t4)).sendall(question())
            for _ in range(AT_ONCE):
                assert begun.acquire(timeout=FOR_EVER)
            assert not begun.acquire(blocking=False)
            go_on.set()
        assert begun.acquire(timeout=FOR_EVER)
        assert ask(t4, question())["code"] is None
    finally:
        go_on.set()
        answers.stop()


def test_the_socket_is_for_its_owner_alone_and_a_second_agent_leaves_it_to_the_first(
    t4: simulate.SimulatedRoot,
) -> None:
    first, second = (Local(t4, SOCKET, _saying(who)) for who in ("first", "second"))
    assert first.start()
    assert stat.S_IMODE(Path(t4.path, SOCKET).stat().st_mode) == 0o600
    assert not second.start()
    assert ask(t4, question())["message"] == "first"
    first.stop()
    left = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    place = os.open(Path(t4.path, SOCKET).parent, os.O_RDONLY)
    left.bind(f"/proc/self/fd/{place}/{Path(SOCKET).name}")  # what a killed agent leaves
    left.close()
    os.close(place)
    assert second.start()
    assert ask(t4, question())["message"] == "second"
    second.stop()


def _lent(root: Root, *guests: str, units: tuple[str, ...] = ()) -> None:
    root.replace(LENT, json.dumps({"guests": guests, "units": units}).encode())


def test_an_agent_that_begins_while_another_ends_keeps_its_socket(tmp_path: Path) -> None:
    root = Root(tmp_path)
    begun = []

    class Ending(socket.socket):
        """The other's: the new agent begins as soon as nobody listens on it any more."""

        def shutdown(self, how: int) -> None:
            super().shutdown(how)
            begun.append(local_socket.listen(root, SOCKET))

    with Ending(fileno=local_socket.listen(root, SOCKET).detach()) as ending:
        local_socket.remove(root, SOCKET, ending)
    with begun[0], connected(root):
        pass


def test_a_guest_without_a_lease_waits_for_no_agent(t4: simulate.SimulatedRoot) -> None:
    """Whether nobody listens, or one that never answers: the hook would wait longer than the test may take."""
    install(t4)
    assert starts(t4, "v1") == ""
    _lent(t4, "libvirt:v2")
    assert starts(t4, "v1") == ""
    with _mute(t4):
        assert starts(t4, "v1", '<address uuid="11111111-2222-4333-8444-555555555555"/>') == ""


@pytest.mark.parametrize("mute", [False, True])
def test_a_guest_with_a_lease_starts_all_the_same_and_it_is_said_why_its_devices_may_be_missing(
    t4: simulate.SimulatedRoot, *, mute: bool
) -> None:
    install(t4, seconds=SHORT)
    _lent(t4, "libvirt:v1", "lxc:c1")
    with _mute(t4) if mute else nullcontext():
        for said in (
            starts(t4, "v1"),
            run(t4, installed.LXC, "starting", "c1", "a-lease", "195:1", "c1", "lxc", "pre-start"),
        ):
            assert "has a lease and starts without Cantle's agent" in said
            assert ("did not answer in time" in said) is mute


def test_a_guest_with_a_lease_waits_for_an_agent_that_is_just_being_restarted(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    install(host)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        slice_ = unit(lend(service))
    mdev.remove(host, slice_)
    said: list[str] = []
    guest = threading.Thread(target=lambda: said.append(starts(host, "v1", f'<address uuid="{slice_}"/>')))
    ending = local_socket.listen(host, SOCKET)
    ending.settimeout(FOR_EVER / 2)
    guest.start()
    connection, _ = ending.accept()
    with connection:
        assert connection.recv(LIMIT)  # it was asked, and ends before it answers
        local_socket.remove(host, SOCKET, ending)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        guest.join(FOR_EVER)
        assert said == [""]
        assert [one.uuid for one in mdev.devices(host)] == [slice_]


@pytest.mark.parametrize("answer", [b"", b"nonsense\n", b"[]\n", b"{" + b" " * (2 << 20)])
def test_an_answer_that_is_none_keeps_no_guest(t4: simulate.SimulatedRoot, answer: bytes) -> None:
    install(t4, seconds=SHORT)
    _lent(t4, "libvirt:v1")
    with _mute(t4, answer):
        assert "has a lease and starts without" in starts(t4, "v1")


@pytest.mark.parametrize(
    "words", [("v1", "start", "begin"), ("v1", "prepare", "end"), ("v1", "migrate", "begin"), ("v1",), ()]
)
def test_nothing_is_asked_at_other_moments(t4: simulate.SimulatedRoot, words: tuple[str, ...]) -> None:
    install(t4)
    _lent(t4, "libvirt:v1")
    assert run(t4, installed.LIBVIRT, *words) == ""


def test_a_hook_whose_parts_were_taken_away_keeps_no_guest(t4: simulate.SimulatedRoot) -> None:
    install(t4)
    t4.remove(installed.ASK)
    _lent(t4, "libvirt:v1")
    assert starts(t4, "v1") == ""


def test_a_function_in_a_domains_configuration_is_known_by_its_address(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    install(host)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        lease = lend(service, "card")
        card = lease.arqs[0].attach_handle_info
        parts = f'domain="0x{card["domain"]}" bus="0x{card["bus"]}" slot="0x{card["device"]}" function="0x{card["function"]}"'
        address = f"{card['domain']}:{card['bus']}:{card['device']}.{card['function']}"
        assert ask(host, question(event="leases", units=[address]))["units"][0]["ready"] is True
        assert starts(host, "v1", f"<address {parts}/>") == ""


def test_removing_the_hooks_leaves_no_container_that_names_them(host: simulate.SimulatedRoot, tmp_path: Path) -> None:
    install(host)
    place = lxc.book("c1", "x")
    host.replace(place, "\n".join(["# by Cantle", *installed.lines(host, "c1", "x", ["195:1"]), ""]).encode())
    lxc.without_hooks(host)
    assert installed.remove(host) == [installed.LXC, installed.LIBVIRT, installed.ASK]
    assert host.read_bytes(place) == b"# by Cantle\n"
    assert installed.remove(host) == []


def _saying(words: str) -> Callable[[Question], Answer]:
    return lambda _asked: Answer(message=words)


@contextmanager
def _mute(root: Root, answer: bytes | None = None) -> Iterator[None]:
    """An agent that takes every question and answers none; or with these bytes."""
    listening = local_socket.listen(root, SOCKET)
    kept: list[socket.socket] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                kept.append(connection)
                if answer is not None:
                    connection.recv(LIMIT)
                    connection.sendall(answer)
                    connection.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(FOR_EVER)
        local_socket.remove(root, SOCKET, listening)
        for connection in kept:
            connection.close()
