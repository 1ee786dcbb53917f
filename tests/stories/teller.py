"""Tells a story: a YAML file of requests, one after the other, each with what must come back. In the manner of gabbi.

world: two-cards              # which hosts have reported before (tests/stories/hosts.py)
settings: {page_limit: 2}     # options that differ from the defaults
nova_waits: 300               # Nova is told of events, and waits so many seconds for them
story:
  - name: an administrator makes a profile       # a sentence; it is shown when the step fails
    POST: /v2/device_profiles
    as: admin                 # who calls (tests/stories/world.py); "agent" calls the agents' listener
    version: "2.2"            # OpenStack-API-Version: accelerator 2.2
    headers: {X-Other: value}
    body: [{name: gold, groups: [{"resources:VGPU": "1"}]}]
    raw: "text"               # in place of body: sent as it is
    status: 201
    keys: [uuid, name]        # the answer's keys, in this order
    keys_of: {$.devices[0]: [uuid, type]}               # those of a part of it
    json: {$.name: gold, $.uuid: "~[0-9a-f-]{36}"}      # values by path; "~" begins a regular expression
    count: {$.groups: 1}      # lengths by path
    empty: true               # the answer has no body
    error: {code: profile-not-found, says: gold}        # a failure, in the shape of its API
    response_headers: {Retry-After: "~[0-9]+", X-Gone: null}  # null: must not be there
    statements: 3             # at most so many SQL statements
    keep: {profile: $.uuid}   # later steps write $(profile)
  - name: the time of a lease is over
    over: $(lease)            # no request: its end has come, and a keeper makes its round
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import falcon.testing
import yaml
from tests.stories.hosts import HOSTS
from tests.stories.world import World, fresh_database

from cantle.api.settings import Settings
from cantle.model.event import Outlets

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
#: SQL statements of any call on one instance, however large the cloud (BEGIN and COMMIT aside).
MOST_STATEMENTS = 5

_KNOWN = frozenset(_METHODS) | {
    "name", "as", "version", "headers", "body", "raw", "status", "keys", "json", "count", "empty", "error", "response_headers",
    "statements", "keep", "keys_of", "over",
}  # fmt: skip
_KEPT = re.compile(r"\$\((\w+)\)")
_STEP = re.compile(r"\.(\w+)|\[(-?\d+)\]")


def tell(file: Path, directory: Path) -> None:
    """Tell the story in ``file``; the database goes into ``directory``."""
    content = yaml.safe_load(file.read_text())
    db = fresh_database(directory)
    db.outlets = Outlets(nova_waits=content.get("nova_waits"))
    try:
        world = World(db, Settings(**content.get("settings", {})))
        for host, report in HOSTS[content.get("world", "empty")].items():
            answer = world.call("PUT", f"/v1/hosts/{host}/inventory", body=report, agent=True)
            assert answer.status_code == 200, answer.text
        kept: dict[str, Any] = {}
        for step in content["story"]:
            _step(world, step, kept)
    finally:
        db.close()


def _step(world: World, written: dict[str, Any], kept: dict[str, Any]) -> None:
    unknown = written.keys() - _KNOWN
    assert not unknown, f"the step '{written.get('name')}' has unknown words: {unknown}"
    step = _filled_in(written, kept)
    if "over" in step:
        world.time_is_over(step["over"])
        return
    method = next(name for name in _METHODS if name in step)
    with world.db.statements() as statements:
        answer = _request(world, method, step)
    try:
        _check(step, answer)
        assert len(statements) <= step.get("statements", MOST_STATEMENTS), "\n".join(statements)
        kept.update((name, at(answer.json, path)) for name, path in step.get("keep", {}).items())
    except Exception as problem:
        problem.add_note(f"in the step: {step['name']}")
        problem.add_note(
            f"{method} {step[method]} answered {answer.status} {dict(answer.headers)}\n{answer.text[:2000]}"
        )
        raise


def _request(world: World, method: str, step: dict[str, Any]) -> falcon.testing.Result:
    headers = dict(step.get("headers", {}))
    if "version" in step:
        headers["OpenStack-API-Version"] = f"accelerator {step['version']}"
    person = step.get("as", "admin")
    raw = step.get("raw")
    return world.call(
        method,
        step[method],
        person="admin" if person == "agent" else person,
        agent=person == "agent",
        headers=headers,
        body=step.get("body"),
        raw=None if raw is None else raw.encode(),
    )


def _check(step: dict[str, Any], answer: falcon.testing.Result) -> None:
    assert answer.status_code == step["status"]
    for name, wanted in step.get("response_headers", {}).items():
        _compare(f"header {name}", answer.headers.get(name.lower()), wanted)
    if step.get("empty"):
        assert answer.content == b""
    if "keys" in step:
        assert list(answer.json) == step["keys"]
    for path, names in step.get("keys_of", {}).items():
        assert list(at(answer.json, path)) == names, path
    for path, wanted in step.get("json", {}).items():
        _compare(path, at(answer.json, path), wanted)
    for path, wanted in step.get("count", {}).items():
        assert len(at(answer.json, path)) == wanted, path
    if "error" in step:
        _check_error(step["error"], answer)


def _check_error(wanted: Mapping[str, str], answer: falcon.testing.Result) -> None:
    assert answer.headers["x-cantle-error-code"] == wanted["code"]
    if answer.headers["content-type"] == "application/problem+json":
        problem = answer.json
        assert (problem["code"], problem["status"]) == (wanted["code"], answer.status_code)
        message = problem["detail"]
    else:
        assert list(answer.json) == ["error_message"]
        fault = json.loads(answer.json["error_message"])
        assert list(fault) == ["faultcode", "faultstring", "debuginfo"]
        assert fault["faultcode"] == ("Client" if answer.status_code < 500 else "Server")
        assert fault["debuginfo"] is None
        message = fault["faultstring"]
    assert wanted.get("says", "") in message


def _compare(what: str, found: Any, wanted: Any) -> None:
    if isinstance(wanted, str) and wanted.startswith("~"):
        assert isinstance(found, str), what
        assert re.fullmatch(wanted[1:], found), f"{what} is {found}"
    else:
        assert found == wanted, what


def at(content: Any, path: str) -> Any:
    """The value at a path such as ``$.arqs[0].uuid``."""
    assert path.startswith("$"), path
    position = 1
    while position < len(path):
        match = _STEP.match(path, position)
        assert match, f"the path {path} is not understood from {path[position:]} on"
        content = content[match[1]] if match[1] is not None else content[int(match[2])]
        position = match.end()
    return content


def _filled_in(content: Any, kept: dict[str, Any]) -> Any:
    """``content`` with each ``$(name)`` in its texts, keys included, replaced by what was kept."""
    if isinstance(content, str):
        whole = _KEPT.fullmatch(content)
        return kept[whole[1]] if whole else _KEPT.sub(lambda match: str(kept[match[1]]), content)
    if isinstance(content, dict):
        return {_filled_in(key, kept): _filled_in(value, kept) for key, value in content.items()}
    if isinstance(content, list):
        return [_filled_in(part, kept) for part in content]
    return content
