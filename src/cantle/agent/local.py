"""The agent's local socket: hooks of guests ask here (:mod:`cantle.wire.hook`), root and the agent's own user alone."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable

import msgspec

from cantle.errors import CantleError
from cantle.kernel import local_socket
from cantle.kernel.root import Root
from cantle.wire.hook import LIMIT, Answer, Question

#: Questions that are answered at once; more wait for one of them, as long as their askers do.
AT_ONCE = 16
#: Seconds for a question to come, once somebody is connected, and for its answer to be taken.
_SECONDS = 3.0

_log = logging.getLogger(__name__)


class Local:
    """One socket, in a thread of its own; each question in another.

    :param rel: its place, below the root.
    :param answer: gives the answer; may take as long as the asker waits, and raise what is then told to him.
    """

    def __init__(self, root: Root, rel: str, answer: Callable[[Question], Answer]) -> None:
        self._root = root
        self._rel = rel
        self._answer = answer
        self._room = threading.BoundedSemaphore(AT_ONCE)
        self._socket: socket.socket | None = None

    def start(self) -> bool:
        """Listen. Where that cannot be, it is said, and the agent does without: its other work goes on. Whether it listens."""
        try:
            self._socket = local_socket.listen(self._root, self._rel)
        except CantleError as error:
            _log.warning("hooks of guests are not answered: %s", error)
            return False
        threading.Thread(target=self._serve, args=(self._socket,), name="local socket", daemon=True).start()
        return True

    def stop(self) -> None:
        """Listen no more; questions that are being answered are."""
        listening, self._socket = self._socket, None
        if listening is not None:
            local_socket.remove(self._root, self._rel, listening)

    def _serve(self, listening: socket.socket) -> None:
        while self._room.acquire():
            try:
                connection, _ = listening.accept()
            except OSError as error:
                self._room.release()
                if self._socket is None:
                    return
                _log.warning("a question of a hook was lost: %s", error)
                time.sleep(0.1)  # out of files: others close theirs
            else:
                threading.Thread(target=self._converse, args=(connection,), name="hook", daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(_SECONDS)
                _tell(connection, self._answered(connection))
                _drain(connection)
        finally:
            self._room.release()

    def _answered(self, connection: socket.socket) -> Answer:
        pid, uid = local_socket.peer(connection)
        if uid not in (0, os.geteuid()):
            _log.warning("user %d (process %d) asked what only root may", uid, pid)
            return Answer(code="not-root", message="only root is answered here")
        try:
            question = msgspec.json.decode(_line(connection), type=Question)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return Answer(code="hook-question-unreadable", message=f"this is no question: {error}")
        except OSError as error:
            return Answer(code="hook-question-unreadable", message=f"no question came: {error}")
        try:
            return self._answer(question)
        except CantleError as error:
            return Answer(code=error.code, message=error.message)
        except Exception as error:  # noqa: BLE001 - whatever it is, the hook must not wait for it
            _log.exception("a question of a hook about %s:%s failed", question.kind, question.name)
            return Answer(
                code="agent-failed", message=f"the agent failed at it: {type(error).__name__}; its log has more"
            )


def _line(connection: socket.socket) -> bytes:
    """The question: up to the end of a line, or of what is sent.

    :raises OSError: TimeoutError where it does not come in time, whatever trickles in.
    :raises msgspec.DecodeError: it is too long.
    """
    deadline = time.monotonic() + _SECONDS
    data = bytearray()
    while not data.endswith(b"\n"):
        if len(data) > LIMIT:
            raise msgspec.DecodeError(f"it is longer than {LIMIT} bytes")
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("it did not come in time")
        connection.settimeout(left)
        part = connection.recv(LIMIT + 1 - len(data))
        if not part:
            break
        data += part
    return bytes(data)


def _drain(connection: socket.socket) -> None:
    """Read what else was sent: whoever closes with something unread takes his own answer back (unix(7), ECONNRESET)."""
    deadline = time.monotonic() + 1.0
    try:
        connection.shutdown(socket.SHUT_WR)
        while (left := deadline - time.monotonic()) > 0:
            connection.settimeout(left)
            if not connection.recv(LIMIT):
                return
    except OSError:
        return  # it is gone, or does not end: what was to be said was said


def _tell(connection: socket.socket, answer: Answer) -> None:
    try:
        connection.settimeout(_SECONDS)
        connection.sendall(msgspec.json.encode(answer) + b"\n")
    except OSError as error:
        _log.info("an answer was not taken by its hook: %s", error)
