"""Something that went wrong while looking. It hides nothing else: the rest of what was found stands beside it."""

from __future__ import annotations

from typing import NamedTuple


class Problem(NamedTuple):
    """One thing that could not be read or understood.

    :param source: what it is about, e.g. a PCI address ``0000:af:00.0``, or ``line 12``.
    :param code: a stable code, as those of :mod:`cantle.errors`.
    :param message: one or two sentences for a person, naming the file and the kernel's answer.
    """

    source: str
    code: str
    message: str
