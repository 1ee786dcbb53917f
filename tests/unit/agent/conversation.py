"""Conversations of an agent with its server: recorded once, when a protocol is new, and replayed for ever after.

A recorded file is the agent's side of history. It is never written anew: a server that does not answer it as it was answered then
would fail agents that are out there.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import falcon.testing
from tests.unit.agent.service import TOKEN, Run, Service, until

from cantle import simulate
from cantle.api.app import agents_app
from cantle.api.settings import Settings
from cantle.engine.capacity import list_capacity
from cantle.engine.lease import create_lease, list_leases, release_lease
from cantle.model.identity import LOCAL_ADMIN
from cantle.store.database import Database

RECORDED = Path(__file__).parent / "recorded"

Step = dict[str, Any]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def borrow(db: Database) -> None:
    """What a client does in between: borrow a slice."""
    create_lease(db, LOCAL_ADMIN, profile_name="slice")


def give_back(db: Database) -> None:
    """And give it back."""
    for lease in list_leases(db, LOCAL_ADMIN):
        release_lease(db, LOCAL_ADMIN, lease.uuid)


CLIENT: dict[str, Callable[[Database], None]] = {"borrow": borrow, "give back": give_back}


class Recorder:
    """The agents' application, which writes down what is said in the order it was answered."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.steps: list[Step] = []

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """WSGI."""
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        told: dict[str, Any] = {}

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            told["status"] = int(status[:3])
            return start_response(status, headers, *rest)

        answer = b"".join(self._app(environ, start))
        query = environ.get("QUERY_STRING")
        step = {
            "method": environ["REQUEST_METHOD"],
            "path": environ["PATH_INFO"] + (f"?{query}" if query else ""),
            "body": json.loads(body) if body else None,
            "status": told["status"],
            "answer": json.loads(answer) if answer else None,
        }
        self.steps.append(step)
        return [answer]


def record(db: Database, directory: Path) -> list[Step]:
    """An agent of today on a simulated host: it reports, a slice is borrowed and given back."""
    service = Service(db)
    service.down()
    recorder = Recorder(agents_app(db, Settings(agents_token=TOKEN)))
    service.up(recorder)
    service.profiles()
    run = Run(service, simulate.build(simulate.load("t4"), directory / "root"), directory / "memory")
    try:
        until(lambda: [step["method"] for step in recorder.steps[:3]] == ["PUT", "GET", "PUT"])  # it waits for work now
        recorder.steps.append({"client": "borrow"})
        borrow(db)
        service.settled(list_leases(db, LOCAL_ADMIN)[0].uuid)
        recorder.steps.append({"client": "give back"})
        give_back(db)
        until(lambda: all(one.free == one.total for one in list_capacity(db)))
    finally:
        run.end()
        service.down()
    return recorder.steps


class Replay:
    """Says what the agent said, and compares what it is answered. Uuids that the server makes differ; the agent says the new ones."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._app = agents_app(db, Settings(agents_token=TOKEN))
        self._now: dict[str, str] = {}

    def step(self, step: Step) -> None:
        """One call, or what a client does in between."""
        if "client" in step:
            CLIENT[step["client"]](self._db)
            return
        answer = self.say(step)
        assert answer.status_code == step["status"], answer.text
        if step["answer"] is not None:
            self._compare(step["answer"], answer.json, step["path"])

    def say(self, step: Step) -> falcon.testing.Result:
        """One call, whatever the answer."""
        path, _, query = step["path"].partition("?")
        body = None if step["body"] is None else _UUID.sub(self._renamed, json.dumps(step["body"]))
        return falcon.testing.simulate_request(
            self._app,
            step["method"],
            path,
            query_string=re.sub(r"wait=[\d.]+", "wait=0", query),
            body=body,
            headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
        )

    def _renamed(self, found: re.Match[str]) -> str:
        return self._now.get(found.group(), found.group())

    def _compare(self, then: object, now: object, where: str) -> None:
        """All that was there then is there now, and means the same. What is new besides, an agent leaves out of account."""
        if isinstance(then, dict):
            assert isinstance(now, dict), where
            for key, value in then.items():
                assert key in now, f"{where}: {key}"
                self._compare(value, now[key], f"{where}.{key}")
        elif isinstance(then, list):
            assert isinstance(now, list), where
            assert len(now) == len(then), where
            for place, (one, other) in enumerate(zip(then, now, strict=True)):
                self._compare(one, other, f"{where}[{place}]")
        elif isinstance(then, str) and _UUID.fullmatch(then):
            assert isinstance(now, str), where
            assert self._now.setdefault(then, now) == now, where
        else:
            assert now == then, where
