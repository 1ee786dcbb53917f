"""Intents: what an operator wants a device to be. Stored apart from what is observed, and applied before inventory is published.

One JSON form serves the wire, the database (as text) and the host's own disk::

    {"device": "0000:af:00.0", "mode": "mdev", "types": {"0000:af:00.0": "nvidia-223"}, "hardware": "10de:1eb8", "version": 3}

A key this version does not know is refused by name: half of a wish is not the wish. New wishes (virtual functions, MIG layout)
become new keys.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NoReturn

from cantle.errors import BadRequest
from cantle.model.device import Mode
from cantle.model.pci import PciAddress

#: Modes that can be wished for so far.
MODES = (Mode.PASSTHROUGH, Mode.MDEV)

_KEYS = ("device", "mode", "types", "hardware", "version")
#: Names become parts of paths in sysfs: no slash, no leading dot.
_PARENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}")
_TYPE_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,127}")
_HARDWARE = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")


@dataclass(frozen=True, slots=True)
class Intent:
    """The wish for one device. Values are checked when it is made, however it is made.

    :param device: its address on its host: a PCI address in any usual spelling (kept as sysfs spells it), or the name of a parent of
        mediated devices that is no PCI function (``mtty_mtty``).
    :param types: for mode ``mdev``, the type made on each parent. Empty: what the configuration enables. Parents that are PCI
        functions may be the card itself or its virtual functions.
    :param hardware: vendor and device id (``10de:1eb8``) of the card that was meant; "" when not said. Addresses move when a card is
        added, and a wish must not be carried out on another card.
    :param version: 0 until stored; each change of a device's intent has the next number.
    :raises BadRequest: ``bad-intent``; message and details name the key, the value and the mend.
    """

    device: str
    mode: Mode
    types: Mapping[str, str] = field(default_factory=dict)
    hardware: str = ""
    version: int = 0

    def __post_init__(self) -> None:
        _put(self, "device", _device(self.device, "device"))
        _put(self, "mode", _mode(self.mode, self.device))
        _put(self, "types", _types(self.types, self.mode))
        _put(self, "hardware", _hardware(self.hardware))
        _put(self, "version", _version(self.version))

    @property
    def is_pci(self) -> bool:
        """Whether the device is a PCI function."""
        return is_pci(self.device)

    @property
    def etag(self) -> str:
        """Changes with every change of the intent: version and a digest of the rest, e.g. ``3-5c1f0a9be2d4``. Unquoted."""
        return f"{self.version}-{hashlib.sha256(self.dumps().encode()).hexdigest()[:12]}"

    def to_json(self) -> dict[str, object]:
        """The JSON form; keys that say nothing are left out, except ``version``."""
        form: dict[str, object] = {"device": self.device, "mode": str(self.mode)}
        if self.types:
            form["types"] = dict(sorted(self.types.items()))
        if self.hardware:
            form["hardware"] = self.hardware
        form["version"] = self.version
        return form

    @classmethod
    def from_json(cls, form: object) -> Intent:
        """The intent of a JSON form.

        :raises BadRequest: ``bad-intent``.
        """
        if not isinstance(form, Mapping):
            _refuse("intent", form, 'an object such as {"device": "0000:af:00.0", "mode": "passthrough"}')
        for key in form:
            if key not in _KEYS:
                _refuse("intent", key, f"only the keys {', '.join(_KEYS)}")
        for key in ("device", "mode"):
            if key not in form:
                _refuse(key, None, "it: every intent names a device and a mode")
        return cls(**form)

    def dumps(self) -> str:
        """The JSON form as one line of text, the same for equal intents."""
        return json.dumps(self.to_json(), separators=(",", ":"))

    @classmethod
    def loads(cls, text: str) -> Intent:
        """The intent of such a text.

        :raises BadRequest: ``bad-intent``.
        """
        try:
            form = json.loads(text)
        except ValueError:
            _refuse("intent", text[:80], "JSON")
        return cls.from_json(form)


class IntentState(StrEnum):
    """How far a host has followed the latest wish for one of its devices. ``cantle.model.intent.IntentStatus`` derives it."""

    NONE = "none"
    """No wish holds, for none was made or its clearing was followed: the host's configuration decides; a wish leaves it."""
    PENDING = "pending"
    """The host has yet to follow the latest wish or clearing, and nothing is lent of the device; a report or the next wish leaves it."""
    APPLIED = "applied"
    """The device is what the wish says; the next wish, a clearing, or a report that it is so no longer leaves it."""
    FAILED = "failed"
    """The host could not follow and goes on trying, and nothing is lent of the device; a report of success or the next wish leaves it."""


@dataclass(frozen=True, slots=True)
class IntentStatus:
    """The latest wish for a device, and what its host has reported of it.

    :param intent: None when there never was one, or when it was cleared; the clearing has a version too.
    :param version: of the latest wish; 0 when there never was one.
    :param applied: the version the host says the device is in accordance with.
    :param tried: the version it tried last, to which ``code`` and ``error`` belong; both None if that did not fail.
    :param set_by: the user who made or cleared it.
    """

    intent: Intent | None = None
    version: int = 0
    applied: int = 0
    tried: int = 0
    code: str | None = None
    error: str | None = None
    set_by: str = ""
    created_at: dt.datetime | None = None
    updated_at: dt.datetime | None = None

    @property
    def state(self) -> IntentState:
        """How far the host has followed. A failure to follow an earlier wish says nothing about the latest."""
        if self.applied == self.version:
            return IntentState.NONE if self.intent is None else IntentState.APPLIED
        failed = self.code is not None and self.tried == self.version
        return IntentState.FAILED if failed else IntentState.PENDING

    @property
    def next_version(self) -> int:
        """Of the next wish. Higher than any version the host has ever named: after a database was put back from an older copy, its host
        knows versions that the database does not."""
        return max(self.version, self.applied, self.tried) + 1

    def why_not(self, address: str) -> str | None:
        """Why nothing may be lent of the device at that address, in words; None when the host has followed."""
        wish = "what its host's configuration says" if self.intent is None else str(self.intent.mode)
        if self.state is IntentState.PENDING:
            return f"{address} is being changed to {wish} (intent {self.version})"
        if self.state is IntentState.FAILED:
            return f"{address} could not be changed to {wish} (intent {self.version}): {self.error or self.code}"
        return None


def is_pci(device: str) -> bool:
    """Whether a device's name is a PCI address."""
    try:
        PciAddress.parse(device)
    except BadRequest:
        return False
    return True


def canonical(device: str) -> str:
    """A device's name as it is stored: a PCI address as sysfs spells it, anything else as it is."""
    return str(PciAddress.parse(device)) if is_pci(device) else device


def _device(value: object, key: str) -> str:
    if not isinstance(value, str):
        _refuse(key, value, "a PCI address such as 0000:af:00.0, or the name of a parent of mediated devices")
    if is_pci(value):
        return canonical(value)
    if _PARENT.fullmatch(value) is None:
        _refuse(
            key,
            value,
            "a PCI address such as 0000:af:00.0, or the name of a parent of mediated devices such as mtty_mtty",
        )
    return value


def _mode(value: object, device: str) -> Mode:
    known = " or ".join(MODES)
    if value not in MODES:
        _refuse("mode", value, known)
    mode = Mode(str(value))
    if mode is Mode.PASSTHROUGH and not is_pci(device):
        _refuse("mode", value, f"mdev: {device} is no PCI function and cannot be lent whole")
    return mode


def _types(value: object, mode: Mode) -> dict[str, str]:
    if not isinstance(value, Mapping):
        _refuse("types", value, 'an object of parent and type, such as {"0000:af:00.0": "nvidia-223"}')
    if value and mode is not Mode.MDEV:
        _refuse("types", dict(value), f"none, or mode mdev: in mode {mode} no mediated devices are made")
    types: dict[str, str] = {}
    for parent, type_id in value.items():
        if not isinstance(type_id, str) or _TYPE_ID.fullmatch(type_id) is None:
            _refuse(
                f"types.{parent}",
                type_id,
                "the id of one type, such as nvidia-223 (a directory below mdev_supported_types)",
            )
        name = _device(parent, "types")
        if name in types:
            _refuse("types", parent, f"one type per parent: {name} is there twice")
        types[name] = type_id
    return types


def _hardware(value: object) -> str:
    if not isinstance(value, str) or (value and _HARDWARE.fullmatch(value.lower()) is None):
        _refuse("hardware", value, "vendor and device id, such as 10de:1eb8")
    return value.lower()


def _version(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        _refuse("version", value, "a whole number from 0 on")
    return value


def _put(intent: Intent, name: str, value: object) -> None:
    object.__setattr__(intent, name, value)


def _refuse(key: str, value: object, mend: str) -> NoReturn:
    raise BadRequest("bad-intent", f"{key} is {value!r}; write {mend}", key=key, value=value)
