"""Changes to a host as data: ``plan`` prints the steps, ``apply`` runs them (house rule: host steps are data)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Step:
    """One change. JSON-able: every field is a string, a boolean or a mapping of strings, so it travels and is stored as it is.

    :param name: what kind of change, e.g. ``bind-driver``; chooses the code that runs it (:data:`cantle.kernel.undo.Executors`).
    :param target: what is changed: a PCI address, an mdev's uuid, a module's name.
    :param args: what the code needs besides, e.g. ``{"driver": "vfio-pci"}``.
    :param reversible: a failure of a later step can take it back.
    :param disruptive: whatever uses the target now loses it.
    :param sentence: what a person reads in the plan: one line, no full stop.
    """

    name: str
    target: str
    args: Mapping[str, str]
    reversible: bool
    disruptive: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in their order. No steps means that the host is already as it is wanted. Warnings are facts to know before saying yes."""

    steps: tuple[Step, ...] = ()
    warnings: tuple[str, ...] = ()
