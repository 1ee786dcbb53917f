"""Every error code that the source can raise is explained in docs/errors, and nothing else is."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from tests.unit.house.checkout import CHECKOUT, modules, texts

from cantle import errors
from cantle.cli.explain_error import paragraphs

CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
PAGES = sorted(path for path in (CHECKOUT / "docs" / "errors").glob("*.md") if path.name != "README.md")


def headings() -> list[str]:
    """The codes that the pages explain."""
    return [
        line.removeprefix("## ").strip()
        for page in PAGES
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("## ")
    ]


def takers() -> dict[str, int]:
    """Place of the argument ``code`` by name, of everything that takes one: the errors, and functions and values that pass it on."""
    found: dict[str, int] = {}
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                names = [argument.arg for argument in node.args.args if argument.arg not in ("self", "cls")]
                if "code" in names and node.name != "__init__":
                    found[node.name] = names.index("code")
            elif isinstance(node, ast.ClassDef):
                fields = [
                    one.target.id
                    for one in node.body
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
                ]
                if "code" in fields:
                    found[node.name] = fields.index("code")
                elif any(isinstance(base, (ast.Name, ast.Attribute)) and _last(base) in _ERRORS for base in node.bases):
                    found[node.name] = 0
    return found | dict.fromkeys(_ERRORS, 0)


_ERRORS = {name for name, one in vars(errors).items() if isinstance(one, type) and issubclass(one, errors.CantleError)}


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def raised() -> Iterator[tuple[str, str]]:
    """Each code and where it stands."""
    places = takers()
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or _last(node.func) not in places:
                continue
            place = places[_last(node.func)]
            given = [word.value for word in node.keywords if word.arg == "code"] + node.args[place : place + 1]
            for part in (inner for argument in given[:1] for inner in ast.walk(argument)):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and CODE.fullmatch(part.value):
                    yield part.value, f"{path}:{node.lineno}"


def test_every_code_that_is_raised_is_explained() -> None:
    known = set(headings())
    assert {code: place for code, place in raised() if code not in known} == {}


def test_every_code_that_is_explained_exists() -> None:
    """As it stands in the source, or put together there from a word and a fixed part: ``f"{noun}-not-found"``."""
    spoken = {str(constant.value) for tree in modules().values() for constant in texts(tree)}
    composed = [re.compile(pattern) for tree in modules().values() for pattern in composed_codes(tree)]
    assert [
        code for code in headings() if code not in spoken and not any(one.fullmatch(code) for one in composed)
    ] == []


def composed_codes(tree: ast.AST) -> Iterator[str]:
    """Patterns of the formatted strings that look like codes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [str(part.value) if isinstance(part, ast.Constant) else None for part in node.values]
            fixed = "".join(part for part in parts if part is not None)
            if re.fullmatch(r"[a-z0-9-]*-[a-z0-9-]*", fixed) and len(fixed) > 3:
                yield "".join("[a-z0-9-]+" if part is None else part for part in parts)


def test_a_code_is_explained_once() -> None:
    assert [code for code, times in Counter(headings()).items() if times > 1] == []


def test_a_code_is_kebab_case() -> None:
    assert [code for code in headings() if not CODE.fullmatch(code)] == []


def test_every_explanation_says_something_and_the_command_finds_it() -> None:
    """A heading without a sentence below it helps nobody."""
    found = paragraphs()
    assert {code for code in headings() if len(found.get(code, "").split()) < 6} == set()
