"""Who is told that a thing is not there, or that he may not, is told what to do; and a command that a message or a page names exists."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

import click
import pytest
from tests.unit.house.checkout import CHECKOUT, SOURCE, modules

from cantle import errors
from cantle.api.policy_cli import main as policy
from cantle.cli.explain_error import paragraphs
from cantle.cli.main import cantle
from cantle.cli.manage import manage
from cantle.cli.status import status

REFUSALS = {"NotFound", "Forbidden", "Unauthorized"}
ERRORS = {name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, errors.CantleError)}

#: Codes besides those of the refusals.
TOLD = ("-not-found", "-taken", "-replaced", "-not-migrated", "no-free-handle", "config-file-missing", "server-timeout")

#: A command in quotes, an option, a section of the configuration, or a request of the API; failing these, a word that bids, or who
#: mends it by himself.
MEND = re.compile(
    r"'[a-z][a-z-]+ ?[^']*'|--[a-z]+|\[[a-z_]+\] [a-z_]+"
    r"|\b(GET|POST) /|[.:;] (give|name|use|ask|write|send|get|leave|take|check|begin|choose|remove|stop|try)\b|The keeper makes",
    re.IGNORECASE,
)
COMMAND = re.compile(r"['`]((?:cantle|cantle-manage|cantle-policy|cantle-status) [a-z][^'`\n|<>]*)['`]")
PROGRAMS: dict[str, click.Command] = {
    "cantle": cantle,
    "cantle-manage": manage,
    "cantle-policy": policy,
    "cantle-status": status,
}


@cache
def refusals() -> tuple[tuple[str, str], ...]:
    """Place and text of each error that says that something is not there, not allowed, or another's."""
    found = []
    for path, tree in modules().items():
        calls = [one for one in ast.walk(tree) if isinstance(one, ast.Call) and _last(one.func) in ERRORS]
        given = _given(tree) if calls else {}
        for call in calls:
            if len(call.args) > 1:
                code = _text(call.args[0], given)
                if code.endswith(TOLD) or _last(call.func) in REFUSALS:
                    found.append((f"{path}:{call.lineno} {code}", _text(call.args[1], given)))
    return tuple(found)


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _given(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """What a module assigns, by name."""
    found: dict[str, list[ast.expr]] = defaultdict(list)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            found[_last(node.targets[0])].append(node.value)
    return found


def _text(node: ast.AST, given: Mapping[str, list[ast.expr]], depth: int = 2) -> str:
    """What can be read of a text without running it: names are looked up in what the module assigns."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part, given, depth) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _text(node.value, given, depth) or "…"
    if isinstance(node, ast.Name) and depth:
        return " ".join(_text(one, given, depth - 1) for one in given.get(node.id, ()))
    if isinstance(node, (ast.IfExp, ast.BoolOp, ast.BinOp)):
        return " ".join(_text(part, given, depth) for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
    return ""


def test_a_refusal_says_what_to_do_about_it() -> None:
    assert [f"{place}: {text}" for place, text in refusals() if text and not MEND.search(text)] == []


def test_the_page_of_what_is_not_there_says_what_shows_what_is() -> None:
    told = {code: words for code, words in paragraphs().items() if code.endswith("-not-found")}
    assert len(told) > 10
    assert [code for code, words in told.items() if "`" not in words and not MEND.search(words)] == []


def test_the_search_for_refusals_finds_them() -> None:
    found = dict(refusals())
    codes = {place.rpartition(" ")[2] for place in found}
    assert {"host-not-found", "guest-not-found", "marker-not-found", "policy-denied", "token-not-valid"} <= codes
    assert sum(not text for text in found.values()) <= 3  # put together elsewhere


@pytest.mark.parametrize("text", ["There is no host 'x'.", "Policy doesn't allow 'y'."])
def test_a_text_without_a_mend_would_be_found(text: str) -> None:
    assert MEND.search(text) is None


def named_commands() -> Iterator[tuple[str, list[str]]]:
    """Page or module, and the words of each command that stands in quotes there."""
    for path in [*SOURCE.rglob("*.py"), *(CHECKOUT / "docs").rglob("*.md")]:
        for found in COMMAND.finditer(path.read_text(encoding="utf-8")):
            yield path.name, found[1].split()


def _stray(words: list[str]) -> str | None:
    """The first word that the program does not know, as a command or an option."""
    command, rest = PROGRAMS[words[0]], words[1:]
    while rest and isinstance(command, click.Group):
        below = command.get_command(click.Context(command), rest[0])
        if below is None:
            return rest[0]
        command, rest = below, rest[1:]
    known = {spelling for one in command.params for spelling in (*one.opts, *one.secondary_opts)}
    return next((word for word in rest if word.startswith("--") and word.partition("=")[0] not in known), None)


def test_a_command_that_a_message_or_a_page_names_exists() -> None:
    """``cantle device enable`` was told to people, and was none."""
    found = list(named_commands())
    assert len(found) > 200
    assert [f"{place}: {' '.join(words)}" for place, words in found if _stray(words)] == []


@pytest.mark.parametrize("words", ["cantle host show-all", "cantle lease list --every", "cantle-manage db paint"])
def test_a_command_that_does_not_exist_would_be_found(words: str) -> None:
    assert _stray(words.split()) is not None
