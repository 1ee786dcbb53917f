"""Rules of the house that can be read off the files: paths, sizes, docstrings, names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.unit.house.checkout import CHECKOUT, SOURCE, modules, texts, written_files

#: Lines a module may have. The house aims at 300; beyond this it has two subjects.
LONGEST = 400

KERNEL_PATH = re.compile(r"(^|[^\w./-])/(sys|proc|dev)(/|$)")


def test_only_the_kernel_room_knows_paths_of_the_kernel() -> None:
    """Every other room gets its paths from a Root, or it could not be simulated."""
    found = [
        f"{path}:{constant.lineno}: {constant.value!r}"
        for path, tree in modules().items()
        if path.parts[0] != "kernel"
        for constant in texts(tree)
        if KERNEL_PATH.search(str(constant.value)) and not is_help(tree, constant)
    ]
    assert found == []


def is_help(tree: ast.AST, constant: ast.Constant) -> bool:
    """Whether the text is shown to a person as the help of an option."""
    return any(
        isinstance(node, ast.keyword) and node.arg == "help" and constant in ast.walk(node) for node in ast.walk(tree)
    )


def test_no_module_is_too_long() -> None:
    """A module that does not fit has two subjects."""
    lengths = {path: len((SOURCE / path).read_text(encoding="utf-8").splitlines()) for path in modules()}
    assert {str(path): length for path, length in lengths.items() if length > LONGEST} == {}


def test_every_public_thing_has_a_docstring() -> None:
    """Modules, classes, functions and methods without a leading underscore say what they are for. A migration does so as a module."""
    found = [(path, name) for path, tree in modules().items() for name in undocumented(tree)]
    assert [f"{path}: {name}" for path, name in found if "migrations" not in path.parts or name == "(module)"] == []


def undocumented(tree: ast.Module) -> Iterator[str]:
    """Names of public things without a docstring; what is defined inside a function is not public."""
    if tree.body and not ast.get_docstring(tree):
        yield "(module)"
    yield from _undocumented(tree.body, "")


def _undocumented(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) or node.name.startswith("_"):
            continue
        if not ast.get_docstring(node) and not any(_name(decorator) == "overload" for decorator in node.decorator_list):
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from _undocumented(node.body, f"{prefix}{node.name}.")


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def test_a_noun_has_one_file_name_in_every_room() -> None:
    """``device.py``, never ``devices.py``: whoever looks for a noun finds it at once. (conf/ is named after its sections.)"""
    nouns = {path.stem for path in modules() if path.parts[0] == "model" and path.stem != "__init__"}
    plurals = {f"{noun}s" for noun in nouns} | {f"{noun[:-1]}ies" for noun in nouns if noun.endswith("y")}
    assert [str(path) for path in modules() if path.stem in plurals and path.parts[0] != "conf"] == []


def test_nothing_is_called_utils() -> None:
    """A module is named after what it is about."""
    vague = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [str(path) for path in modules() if path.stem in vague] == []


def test_no_file_names_a_place_on_a_developers_machine() -> None:
    """What is committed works anywhere."""
    places = re.compile(
        r"(?<![\w.])/(?:work|home/\w+)/|[.]pyen[v]|[.]librar[y]"
    )  # written so that it does not match itself
    found = []
    for path in written_files():
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{path.relative_to(CHECKOUT)}: {match.group()}" for match in places.finditer(text)]
    assert found == []


def test_every_page_that_another_page_links_to_exists() -> None:
    """Relative links between the project's pages lead somewhere."""
    link = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)")
    pages = [path for path in written_files() if path.suffix == ".md"]
    broken = [
        f"{page.relative_to(CHECKOUT)}: {target}"
        for page in pages
        for target in link.findall(page.read_text(encoding="utf-8"))
        if not Path(page.parent, target).exists()
    ]
    assert broken == []
