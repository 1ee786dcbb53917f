"""Saved output of ``lspci``, for a look at a machine that is not at hand.

Read are ``lspci -D -nn``, ``-nnk`` (and its verbose cousins), ``-nnmm`` and ``-vmm -nn -D -k``, each also without ``-D`` and with
``-n`` in place of ``-nn``; and what the lspci of BusyBox prints, as small guests have it. The forms are those of pciutils' lspci(8),
chapter "Machine-readable output", and of its source; and of BusyBox's ``util-linux/lspci.c``.
A dump does not tell everything: SR-IOV is never in it, driver, NUMA node and IOMMU group only in some forms.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from cantle.errors import BadRequest
from cantle.model.pci import PciAddress, PciFunction

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
#: lspci's own complaints, caught by ``2>&1``; they turn up in the middle of a function.
_COMPLAINT = re.compile(r"(lspci|pcilib|Unable to load libkmod)\b.*")
_HEXDUMP = re.compile(r"[0-9a-f]{2,3}:( [0-9a-f]{2}){1,16}")

_ADDRESS = re.compile(r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?:\s+(.*))?", re.IGNORECASE)
_TERSE = re.compile(
    r"(?:.*? \[)?(?P<class>[0-9a-f]{4})\]?: (?:(?P<name>.*) )?\[?(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]?"
    r"(?: \(rev (?P<rev>[0-9a-f]{2})\))?(?: \(prog-if (?P<progif>[0-9a-f]{2}).*\))?",
    re.IGNORECASE,
)
_BUSYBOX = re.compile(
    r"Class (?P<class>[0-9a-f]{4}): (?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})(?: (?P<driver>\S+))?", re.IGNORECASE
)
_QUOTED = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|-([rp])([0-9a-f]{2}))', re.IGNORECASE)
_TAGGED = re.compile(r"([A-Z][A-Za-z]*):(?:\s+(.*))?")
_NAMED_ID = re.compile(r"(?:(.*) )?\[([0-9a-f]{4})\]|([0-9a-f]{4})", re.IGNORECASE)

_DRIVER = re.compile(r"\s+Kernel driver in use: (\S+)")
_SUBSYSTEM = re.compile(r"\s+Subsystem: .*?\[?([0-9a-f]{4}):([0-9a-f]{4})\]?", re.IGNORECASE)
_NUMA_NODE = re.compile(r"\bNUMA node:? (\d+)")
_IOMMU_GROUP = re.compile(r"\bIOMMU group:? (\d+)")

#: Names in pci.ids have at most some 150 characters.
_LONGEST = 1000

_HINT = "make the dump with: lspci -D -nn -k"


class Listed(NamedTuple):
    """A function of a dump. What the dump does not tell is None or ""; ``dead`` is what lspci shows as revision ff."""

    function: PciFunction
    name: str | None


@dataclass(slots=True)
class _Entry:
    """A function being read: the line it begins at, its facts under the tags of ``lspci -vmm``, and the lines of those."""

    line: int
    facts: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


def parse(text: str) -> list[Listed]:
    """All functions of a dump, in its order.

    :raises BadRequest: ``bad-lspci-dump``, with ``line`` in the details: the dump is empty, cut off, without numeric ids, or none.
    """
    entries = _entries(text)
    if not entries:
        _refuse(1, f"there is no PCI function in this dump; {_HINT}")
    listed: list[Listed] = []
    seen: dict[PciAddress, int] = {}
    for entry in entries:
        one = _listed(entry)
        first = seen.setdefault(one.function.address, entry.line)
        if first != entry.line:
            _refuse(
                entry.line,
                f"{one.function.address} was there already in line {first}; give one machine's dump at a time",
            )
        listed.append(one)
    return listed


def _entries(text: str) -> list[_Entry]:
    entries: list[_Entry] = []
    tagged = False
    for number, raw in enumerate(text.split("\n"), start=1):
        line = _ESCAPES.sub("", raw).rstrip()
        if not line:
            tagged = False
        elif _COMPLAINT.fullmatch(line) or (entries and _HEXDUMP.fullmatch(line)):
            continue
        elif line[0] in " \t":
            if not entries:
                _refuse(number, f"{_quote(line)} is indented but belongs to no function; {_HINT}")
            _read_detail(line, entries[-1].facts)
        elif len(line) > _LONGEST:
            _refuse(number, f"{_quote(line)} has {len(line)} characters, more than any line of lspci; {_HINT}")
        elif match := _ADDRESS.fullmatch(line):
            entries.append(_Entry(number, {"Slot": match[1], **_read_line(number, match[2] or "")}))
        elif match := _TAGGED.fullmatch(line):
            if not tagged or match[1] == "Slot":
                entries.append(_Entry(number))
            tagged = True
            entries[-1].facts[match[1]] = match[2] or ""
            entries[-1].lines[match[1]] = number
        else:
            _refuse(number, f"{_quote(line)} is no line of lspci; {_HINT}")
    return entries


def _read_line(number: int, rest: str) -> dict[str, str]:
    """The facts of a one-line entry, behind its address."""
    if rest.startswith('"'):
        return _read_quoted(number, rest)
    if match := _BUSYBOX.fullmatch(rest):
        facts = {tag: match[tag.lower()] or "" for tag in ("Class", "Vendor", "Device", "Driver")}
        return {**facts, "Name": ""}
    match = _TERSE.fullmatch(rest)
    if match is None:
        _refuse(number, f"{_quote(rest)} has no class and no vendor:device in numbers, or is cut off; {_HINT}")
    facts = {"Class": match["class"], "Vendor": match["vendor"], "Device": match["device"], "Name": match["name"] or ""}
    facts.update({tag: match[group] for tag, group in (("Rev", "rev"), ("ProgIf", "progif")) if match[group]})
    return facts


def _read_quoted(number: int, rest: str) -> dict[str, str]:
    """The facts of a line of ``-mm``: ``"class" "vendor" "device" -rXX -pXX "subsystem vendor" "subsystem"``."""
    facts: dict[str, str] = {}
    tags = iter(("Class", "Vendor", "Device", "SVendor", "SDevice"))
    position = 0
    while position < len(rest):
        match = _QUOTED.match(rest, position)
        tag = {"r": "Rev", "p": "ProgIf"}.get((match[2] or "").lower()) or next(tags, None) if match else None
        if match is None or tag is None:
            _refuse(number, f"{_quote(rest[position:])} is no field of lspci -mm, or is cut off; {_HINT}")
        facts[tag] = match[3] or re.sub(r"\\(.)", r"\1", match[1] or "")
        position = match.end()
    return facts


def _read_detail(line: str, facts: dict[str, str]) -> None:
    """An indented line of ``-k`` or ``-v``. Most are of no interest here."""
    if match := _DRIVER.fullmatch(line):
        facts["Driver"] = match[1]
    elif match := _SUBSYSTEM.fullmatch(line):
        facts["SVendor"], facts["SDevice"] = match.groups()
    else:
        if match := _NUMA_NODE.search(line):
            facts["NUMANode"] = match[1]
        if match := _IOMMU_GROUP.search(line):
            facts["IOMMUGroup"] = match[1]


def _listed(entry: _Entry) -> Listed:
    facts = entry.facts
    try:
        address = PciAddress.parse(facts.get("Slot", ""))
    except BadRequest as error:
        _refuse(entry.line, error.message if "Slot" in facts else f"a function without its Slot; {_HINT}")
    _, class_code = _named_id(entry, "Class")
    vendor, vendor_id = _named_id(entry, "Vendor")
    device, device_id = _named_id(entry, "Device")
    subsystem = [
        match[2] or match[3] for tag in ("SVendor", "SDevice") if (match := _NAMED_ID.fullmatch(facts.get(tag, "")))
    ]
    revision = facts.get("Rev", "").lower()
    function = PciFunction(
        address=address,
        vendor_id=vendor_id,
        device_id=device_id,
        class_id=class_code + facts.get("ProgIf", "00").lower(),
        subsystem_vendor=subsystem[0].lower() if len(subsystem) == 2 else "",
        subsystem_device=subsystem[1].lower() if len(subsystem) == 2 else "",
        revision=revision,
        driver=facts.get("Driver") or None,
        iommu_group=_number(facts.get("IOMMUGroup")),
        numa_node=_number(facts.get("NUMANode")),
        dead=revision == "ff" or vendor_id == "ffff",
    )
    return Listed(function, _name(facts.get("Name", f"{vendor} {device}"), device_id))


def _named_id(entry: _Entry, tag: str) -> tuple[str, str]:
    """The name and the number of ``TU104GL [Tesla T4] [1eb8]``; the name may hold brackets, or be missing."""
    text = entry.facts.get(tag)
    if text is None:
        _refuse(entry.line, f"the function that begins here has no {tag}: the dump is cut off, or was edited")
    match = _NAMED_ID.fullmatch(text)
    if match is None:
        _refuse(
            entry.lines.get(tag, entry.line), f"{tag} {_quote(text)} has no number in brackets, or is cut off; {_HINT}"
        )
    return match[1] or "", (match[2] or match[3]).lower()


def _name(text: str, device_id: str) -> str | None:
    """As :meth:`cantle.kernel.pci_ids.PciIds.name` would say it: lspci writes ``Device`` and ``Vendor`` for what it has no name for."""
    text = text.strip()
    if text in ("", "Device") or text.startswith("Vendor Device"):
        return None
    return f"{text} {device_id}" if text.endswith(" Device") else text


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _quote(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


def _refuse(line: int, why: str) -> NoReturn:
    raise BadRequest("bad-lspci-dump", f"line {line}: {why}", line=line)
