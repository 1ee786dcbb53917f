"""Logs: one event a line whatever is in it, with the id of its request."""

from __future__ import annotations

import json
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.api import logs


def record(message: str, *args: object, **extra: object) -> logging.LogRecord:
    """A record as a logger would make it."""
    made = logging.makeLogRecord(
        {"name": "x", "levelname": "INFO", "levelno": 20, "msg": message, "args": args, **extra}
    )
    logs.RequestIdFilter().filter(made)
    return made


@given(st.text(), st.text())
def test_an_event_is_one_line_of_json_whatever_is_in_it(message: str, detail: str) -> None:
    line = logs.JsonFormatter().format(record("%s", message, detail=detail))
    assert "\n" not in line
    content = json.loads(line)
    assert content["message"] == message
    assert content["detail"] == detail


def test_a_traceback_is_a_field() -> None:
    try:
        _ = 1 / int("0")
    except ZeroDivisionError:
        line = logs.JsonFormatter().format(record("failed", exc_info=sys.exc_info()))
    assert "ZeroDivisionError: division by zero" in json.loads(line)["traceback"]


def test_a_value_that_is_no_json_is_told_as_text() -> None:
    assert json.loads(logs.JsonFormatter().format(record("x", who={1, 2}.__class__)))["who"] == "<class 'set'>"


def test_the_request_at_work_is_named() -> None:
    token = logs.REQUEST_ID.set("req-1")
    try:
        assert json.loads(logs.JsonFormatter().format(record("x")))["request_id"] == "req-1"
    finally:
        logs.REQUEST_ID.reset(token)
    assert json.loads(logs.JsonFormatter().format(record("x")))["request_id"] == "-"


@given(st.text(min_size=1))
def test_nothing_in_a_message_makes_a_line_of_its_own(message: str) -> None:
    """A path with an encoded line break would otherwise forge an entry."""
    line = logs.TextFormatter().format(record("GET %s", message))
    assert len(line.splitlines()) == 1
    assert line.isprintable()


def test_a_traceback_follows_its_line() -> None:
    try:
        _ = 1 / int("0")
    except ZeroDivisionError:
        text = logs.TextFormatter().format(record("failed", exc_info=sys.exc_info()))
    assert text.splitlines()[-1] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize("as_json", [True, False])
def test_the_process_logs_to_standard_error(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    try:
        logs.configure(as_json=as_json, level="INFO")
        logging.getLogger("cantle.x").info("hello %s", "there")
        line = capsys.readouterr().err
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
    if as_json:
        assert json.loads(line)["message"] == "hello there"
    else:
        assert line.endswith(" INFO cantle.x [-] hello there\n")
