"""The agent's local socket: what is asked there, by whom, and by how many at once."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.unit.agent.hooking import FOR_EVER, ask, connected, question
from tests.unit.agent.service import Service

from cantle import simulate
from cantle.agent import local
from cantle.agent.local import AT_ONCE, Local
from cantle.kernel import local_socket
from cantle.kernel.root import Root
from cantle.wire.hook import LIMIT, SOCKET, Answer, Question


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


def test_a_question_that_trickles_in_is_given_up_and_that_is_said(
    t4: simulate.SimulatedRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_SECONDS", 0.3)
    answers = Local(t4, SOCKET, lambda asked: Answer(message=asked.name))
    assert answers.start()
    over = threading.Event()
    try:
        with connected(t4) as connection:

            def trickle() -> None:
                with suppress(OSError):
                    while not over.wait(0.01):
                        connection.sendall(b" ")

            sender = threading.Thread(target=trickle, daemon=True)
            sender.start()
            answer = json.loads(connection.recv(LIMIT))
            over.set()
            sender.join(FOR_EVER)
    finally:
        over.set()
        answers.stop()
    assert answer["code"] == "hook-question-unreadable"
    assert answer["message"].startswith("no question came: ")


def _saying(words: str) -> Callable[[Question], Answer]:
    return lambda _asked: Answer(message=words)
