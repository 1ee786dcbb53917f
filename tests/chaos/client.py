"""Somebody who asks until he is answered, as Nova's and our own clients do: an answer that is lost says nothing of what was done."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from typing import Any

from tests.chaos.receiver import NOVA, read
from tests.chaos.roles import Place

#: Far more than a restart and every pause take; whoever reaches it has found something stuck.
PATIENCE_S = 40.0
_PAUSE_S = 0.02


class Patience:
    """How long somebody still waits who looks again and again. Time in which the whole machine stood still, as virtual ones do, is not
    his: between two looks at most a second passes."""

    def __init__(self, seconds: float = PATIENCE_S) -> None:
        self._left = seconds
        self._looked = time.monotonic()

    def use(self, what: str) -> None:
        """He has looked in vain.

        :raises AssertionError: once too often.
        """
        now = time.monotonic()
        self._left -= min(1.0, now - self._looked)
        self._looked = now
        assert self._left > 0, what


class Refused(Exception):
    """An answer of 4xx."""

    def __init__(self, status: int, body: Any) -> None:
        super().__init__(f"{status}: {body}")
        self.status = status
        self.code = body.get("code") if isinstance(body, dict) else None


class Client:
    """Calls of one installation."""

    def __init__(self, place: Place, *, timeout: float = 5.0) -> None:
        self.place = place
        self._timeout = timeout

    def once(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Any:
        """One try.

        :raises OSError: no answer, or one of 5xx. :raises Refused: 4xx.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.place.public_port, timeout=self._timeout)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            text = answer.read()
        except http.client.HTTPException as error:
            raise OSError(str(error) or type(error).__name__) from error
        finally:
            connection.close()
        if answer.status >= 500:
            raise OSError(f"{answer.status}: {text!r}")
        content = json.loads(text) if text else None
        if answer.status >= 400:
            raise Refused(answer.status, content)
        return content

    def ask(self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None) -> Any:
        """Until there is an answer.

        :raises Refused: it is 4xx.
        """

        def again() -> Any:
            try:
                return (self.once(method, path, body, headers),)
            except OSError:
                return None

        return until(again, f"{method} {path} is answered")[0]

    def statuses(self, tag: str) -> set[str]:
        """What Nova was told of an ARQ."""
        heard = [one for one in read(self.place.heard) if one["path"] == NOVA]
        return {event["status"] for one in heard for event in one["body"]["events"] if event["tag"] == tag}


def until(look: Callable[[], Any], what: str) -> Any:
    """What ``look`` returns once that is true.

    :raises AssertionError: it never was.
    """
    patience = Patience()
    while not (found := look()):
        patience.use(f"it never came about that {what}")
        time.sleep(_PAUSE_S)  # between looks at a condition that must come true
    return found
