"""The project's own files, as the house tests read them."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
SOURCE = CHECKOUT / "src" / "cantle"
_WRITTEN = {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".ini", ".mk", ".sh", ".conf", ".cfg", ""}


@cache
def modules() -> dict[Path, ast.Module]:
    """Syntax tree by path relative to ``src/cantle``, of every module."""
    return {
        path.relative_to(SOURCE): ast.parse(path.read_text(encoding="utf-8"), str(path))
        for path in sorted(SOURCE.rglob("*.py"))
    }


def texts(tree: ast.AST) -> Iterator[ast.Constant]:
    """Every string constant except docstrings and the sentences that stand below a name."""
    spoken = {
        id(statement.value)
        for node in ast.walk(tree)
        if isinstance(getattr(node, "body", None), list)
        for statement in node.body  # type: ignore[attr-defined]
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spoken:
            yield node


@cache
def written_files() -> list[Path]:
    """Every text file a person of the project wrote: all but what make, git and the tools keep in folders of their own, into which
    nothing looks: an environment has tens of thousands of files."""
    found = []
    for folder, folders, names in os.walk(CHECKOUT):
        folders[:] = [name for name in folders if not _is_made(name)]
        found += [Path(folder, name) for name in names if not _is_made(name) and Path(name).suffix in _WRITTEN]
    return sorted(path for path in found if path.is_file())


def _is_made(name: str) -> bool:
    """Whether a folder or file of this name is produced, not written."""
    return (name.startswith(".") and name not in (".ci", ".gitignore")) or name in {"__pycache__", "build", "dist"}
