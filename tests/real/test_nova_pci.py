"""Our rules for extra specs, aliases, the whitelist and pools against Nova's own code: equal, but for what docs/choosing.md lists."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
from typing import Any

import pytest
from tests.real.places import INSIDE, PYTHON

from cantle.errors import BadConfig
from cantle.model import alias, device_spec, requirement
from cantle.model.device_spec import Candidate, Whitelist
from cantle.model.json_option import Entry
from cantle.model.numa import NumaPolicy
from cantle.model.pci import PciAddress
from cantle.model.pool import PciDevice, PciRequest, Pools

#: Of each question.
CASES = 2000
ERROR = "error"

#: The socket of each node: two with two nodes each, also interleaved and numbered with gaps, four, one, none known, one of them not known,
#: and a host that has fewer nodes than its devices say.
BOARDS = (
    {"0": 0, "1": 0, "2": 1, "3": 1},
    {"0": 0, "1": 8, "2": 0, "3": 8},
    {"0": 0, "1": 1, "2": 2, "3": 3},
    dict.fromkeys("0123", 0),
    dict.fromkeys("0123"),
    {"0": 0, "1": 0, "2": None, "3": 1},
    {"0": 0, "1": 0},
)

Case = dict[str, Any]


def nova(cases: list[Case]) -> list[Any]:
    """What Nova answers."""
    done = subprocess.run(
        [str(PYTHON), "-W", "ignore", str(INSIDE / "nova_pci.py")],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers: list[Any] = json.loads(done.stdout)
    return answers


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """The same cases in every run, others for each test."""
    return random.Random(request.node.name)  # noqa: S311


def differing(cases: list[Case], ours: list[Any]) -> list[tuple[Case, Any, Any]]:
    """Cases in which the two differ: the case, ours, Nova's."""
    return [(case, mine, theirs) for case, mine, theirs in zip(cases, ours, nova(cases), strict=True) if mine != theirs]


def test_requirements_hold_as_novas_do(chance: random.Random) -> None:
    """A numeric operator with a word fails with an error in Nova, and so does ``<or>`` alone; for us they are unmet."""
    words = ["2", "2.0", "10", "9", "fermi", "Fermi", "a", "b", "", "a b", "kepler fermi"]
    operators = [*sorted(requirement.OPERATORS), "<", ">", "in", ""]
    texts = [f"{op} {word}" for op, word in itertools.product(operators, words)]
    texts += [f"<or> {one} <or> {two}" for one, two in itertools.product(words, words)] + operators
    cases: list[Case] = [{"ask": "match", "value": value, "text": text} for value in [None, *words] for text in texts]
    ours = [requirement.holds(case["value"], case["text"]) for case in cases]
    wrong = [one for one in differing(cases, ours) if not (one[2] == ERROR and one[1] is False)]
    assert wrong == []
    del chance


def alias_text(chance: random.Random) -> str:
    """An alias, most often a good one."""
    given: dict[str, object] = {
        "name": chance.choice(["a1", "b1", " a1 "]),
        "vendor_id": chance.choice(["10de", "10DE", "8086", "0x10de", "*"] if chance.random() < 0.3 else ["10de"]),
        "product_id": chance.choice(["1eb8", "20b0"]),
    }
    more = {
        "device_type": ["type-PCI", "type-PF", "type-VF", "vdpa"],
        "numa_policy": ["required", "preferred", "legacy", "socket", "near"],
        "live_migratable": ["true", "no", "maybe"],
        "capability_type": ["pci", "usb"],
        "resource_class": ["CUSTOM_A"],
        "color": ["red"],
    }
    for key, values in more.items():
        if chance.random() < 0.15:
            given[key] = chance.choice(values)
    if chance.random() < 0.05:
        del given[chance.choice(["name", "vendor_id"])]
    return json.dumps(given) if chance.random() > 0.02 else chance.choice(["{", "[]", "7"])


def our_aliases(entries: list[str]) -> Any:
    """As Nova gives them."""
    try:
        found = alias.parse([Entry(entry) for entry in entries])
    except BadConfig:
        return ERROR
    return {name: [str(one.numa_policy or "legacy"), list(one.specs)] for name, one in found.by_name.items()}


def test_aliases_are_read_as_nova_reads_them(chance: random.Random) -> None:
    """We also take one with a resource class and no ids, and a name that is repeated without ``device_type``; ids are in small letters."""
    cases: list[Case] = [
        {"ask": "aliases", "entries": [alias_text(chance) for _ in range(chance.choice([1, 1, 2, 3]))]}
        for _ in range(CASES)
    ]
    ours = [our_aliases(case["entries"]) for case in cases]
    assert sum(one != ERROR for one in ours) > CASES / 5
    wrong = [
        (case, mine, theirs)
        for case, mine, theirs in differing(cases, ours)
        if json.dumps(mine, sort_keys=True).lower() != _without_capability(theirs)
        and not (theirs == ERROR and _taken_by_us_alone(mine))
    ]
    assert wrong == []


def _without_capability(theirs: Any) -> str:
    """Nova keeps ``capability_type`` in the spec, where no device ever matches it; we take it for what it says: any PCI device."""
    for _, specs in theirs.values() if theirs != ERROR else ():
        for spec in specs:
            spec.pop("capability_type", None)
    return json.dumps(theirs, sort_keys=True).lower()


def _taken_by_us_alone(mine: dict[str, tuple[str, list[dict[str, str]]]]) -> bool:
    """Whether some alias stands more than once without a device type, or has no ids."""
    specs = [of_alias for _, of_alias in mine.values()]
    repeated = any(len(some) > 1 and "dev_type" not in some[0] for some in specs)
    return repeated or any("vendor_id" not in spec for some in specs for spec in some)


def spec_text(chance: random.Random) -> str:
    """An entry of a whitelist, most often a good one."""
    given: dict[str, object] = {}
    if chance.random() < 0.5:
        given["vendor_id"] = chance.choice(
            ["10de", "8086", "*", "10DE", "xyz"] if chance.random() < 0.2 else ["10de", "8086"]
        )
    if chance.random() < 0.4:
        given["product_id"] = chance.choice(["1eb8", "1520", "*", "10000"])
    if chance.random() < 0.6:
        given["address"] = chance.choice(
            [
                *(
                    "*:f0:00.*",
                    "f0:00.0",
                    "00f0:f1:*.1",
                    ".1",
                    ":00.",
                    "0000:f0:00.0",
                    "0000:f0:20.0",
                    "0:0:0:0.0",
                    "f0:g.0",
                ),
                *("*", "f1:10", "", "*:*:*.7", "f0:00.8"),
                *({"bus": "f[01]"}, {"slot": "0", "function": "[0-1]"}, {"bus": "("}, {"domain": ".*", "bus": "f0"}),
            ]
        )
    for key, values in {
        "managed": ["true", "no", "maybe"],
        "color": ["red", "blue"],
        "live_migratable": ["yes", "0"],
    }.items():
        if chance.random() < 0.15:
            given[key] = chance.choice(values)
    text = json.dumps([given, {"vendor_id": "8086"}] if chance.random() < 0.1 else given)
    return text if chance.random() > 0.02 else chance.choice(["{", "7", "[7]"])


def our_whitelist(entries: list[str]) -> Whitelist:
    """With regular expressions as Nova's."""
    return device_spec.parse([Entry(entry) for entry in entries], prefix_match=True)


def candidate(device: Case) -> Candidate:
    """A device as a whitelist looks at it."""
    parent = device["parent_addr"]
    return Candidate(
        device["vendor_id"],
        device["product_id"],
        PciAddress.parse(device["address"]),
        None if parent is None else PciAddress.parse(parent),
    )


def test_whitelists_let_through_what_novas_do(chance: random.Random) -> None:
    """With ``regex_prefix_match``. That a concrete address is a physical function is read from the kernel, in Nova: none here is one."""
    devices = [
        {"vendor_id": vendor, "product_id": product, "address": address, "parent_addr": None}
        for vendor, product in (("10de", "1eb8"), ("8086", "1520"))
        for address in ("0000:f0:00.0", "0000:f0:00.1", "0000:f1:10.0", "00f0:f1:02.1")
    ]
    cases: list[Case] = [
        {
            "ask": "whitelist",
            "entries": [spec_text(chance) for _ in range(chance.choice([1, 2, 3]))],
            "devices": devices,
        }
        for _ in range(CASES)
    ]
    ours: list[Any] = []
    for case in cases:
        try:
            found = our_whitelist(case["entries"])
        except BadConfig:
            ours.append(ERROR)
            continue
        chosen = [found.of(candidate(device)) for device in devices]
        ours.append([None if one is None else found.specs.index(one) for one in chosen])
    assert sum(one != ERROR for one in ours) > CASES / 5
    assert differing(cases, ours) == []


def pool_case(chance: random.Random) -> Case:
    """Devices, a whitelist with tags, and requests."""
    devices: list[Case] = []
    for bus in range(0xF0, 0xF0 + chance.randrange(1, 5)):
        node = chance.choice([0, 0, 1, 2, 3, None])
        plain = chance.random() < 0.5
        address = f"0000:{bus:02x}:00.0"
        ids = ("10de", "1eb8") if plain else ("8086", "1520")
        devices.append(_device(address, ids, "type-PCI" if plain else "type-PF", node, None))
        if not plain:
            devices += [
                _device(f"0000:{bus:02x}:10.{n}", ids, "type-VF", node, address) for n in range(chance.randrange(3))
            ]
    specs = [
        {"vendor_id": "10de", "product_id": "1eb8"},
        {"vendor_id": "8086", "product_id": "1520"},
        {"vendor_id": "8086", "product_id": "1520", "dev_type": "type-VF"},
        {"vendor_id": "8086", "product_id": "1520", "dev_type": "type-PF"},
        {"vendor_id": "10de", "product_id": "1eb8", "color": "RED"},
        {"vendor_id": "10de", "product_id": "1eb8", "live_migratable": "true"},
    ]
    entries = [
        json.dumps({"address": f"*:{bus:02x}:*.*", **chance.choice([{}, {"color": "red"}, {"live_migratable": "yes"}])})
        for bus in range(0xF0, 0xF4)
    ]
    return {
        "ask": "pools",
        "devices": devices,
        "entries": entries,
        "sockets": chance.choice(BOARDS),
        "nodes": chance.choice([None, [0], [1], [0, 1], [2], [1, 3]]),
        "requests": [
            {
                "count": chance.choice([1, 1, 2, 3]),
                "specs": chance.sample(specs, chance.choice([1, 1, 2])),
                "policy": chance.choice([None, *map(str, NumaPolicy)]),
            }
            for _ in range(chance.choice([1, 2, 3]))
        ],
    }


def _device(address: str, ids: tuple[str, str], kind: str, node: int | None, parent: str | None) -> Case:
    return {
        "address": address,
        "vendor_id": ids[0],
        "product_id": ids[1],
        "dev_type": kind,
        "numa_node": node,
        "parent": parent,
    }


def our_pools(case: Case) -> Any:
    """The same question to ours."""
    whitelist = our_whitelist(case["entries"])
    sockets = {int(node): socket for node, socket in case["sockets"].items()}
    made = Pools(sockets=sockets)
    for device in case["devices"]:
        spec = whitelist.of(candidate({**device, "parent_addr": device["parent"]}))
        assert spec is not None
        made.add(PciDevice(**device, tags=spec.pool_tags))
    wanted = [
        PciRequest(one["count"], tuple(one["specs"]), None if one["policy"] is None else NumaPolicy(one["policy"]))
        for one in case["requests"]
    ]
    supported = made.support(wanted, case["nodes"])
    taken = made.consume(wanted, case["nodes"])
    return {"supported": supported, "taken": None if taken is None else [address for some in taken for address in some]}


def test_pools_support_and_give_out_what_novas_do(chance: random.Random) -> None:
    """Nova says that a physical function and its own virtual one fit together, and fails on the host; we say that they do not."""
    cases: list[Case] = [pool_case(chance) for _ in range(CASES)]
    ours = [our_pools(case) for case in cases]
    assert CASES / 10 < sum(one["supported"] for one in ours) < CASES * 9 / 10
    wrong = [
        (case, mine, theirs)
        for case, mine, theirs in differing(cases, ours)
        if not (_has_relatives(case) and _breaks(theirs))
    ]
    assert wrong == []


def _breaks(theirs: Case) -> bool:
    """Nova says that it fits, and cannot give it out: it refuses, or its counts go wrong and it fails with an IndexError."""
    return theirs["taken"] == ERROR or (theirs["supported"] and theirs["taken"] is None)


def _has_relatives(case: Case) -> bool:
    return any(device["parent"] is not None for device in case["devices"])
