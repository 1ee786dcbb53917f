"""YAML as commands print it. A module of its own, so that only ``-o yaml`` loads PyYAML."""

from __future__ import annotations

import re
from typing import Any

import yaml

#: The one in C is ten times as fast, and not in every build of PyYAML.
_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(_Base):  # type: ignore[misc]
    """Quotes what only YAML 1.2 reads as a number: the vendor id ``1e36`` is a text and no power of ten."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?\d+[eE][-+]?\d+$"), list("-+0123456789"))


def dump(document: Any, *, ascii_only: bool) -> str:
    """The document's text.

    :param ascii_only: write every other character as an escape.
    """
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=not ascii_only, width=100)
    return text
