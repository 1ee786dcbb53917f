"""Intents: checked however they are made, and the same after any journey."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.errors import BadRequest
from cantle.model.device import Mode
from cantle.model.intent import Intent

addresses = st.builds(
    lambda domain, bus, slot, function: f"{domain:04x}:{bus:02x}:{slot:02x}.{function}",
    st.integers(0, 0x1FFFF),
    st.integers(0, 255),
    st.integers(0, 31),
    st.integers(0, 7),
)
parents = st.one_of(addresses, st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_]{0,20}", fullmatch=True))
type_ids = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:+-]{0,30}", fullmatch=True)
hardware = st.one_of(st.just(""), st.from_regex(r"[0-9a-f]{4}:[0-9a-f]{4}", fullmatch=True))
intents = st.one_of(
    st.builds(
        Intent,
        device=parents,
        mode=st.just(Mode.MDEV),
        types=st.dictionaries(parents, type_ids, max_size=3),
        hardware=hardware,
        version=st.integers(0, 10**6),
    ),
    st.builds(
        Intent, device=addresses, mode=st.just(Mode.PASSTHROUGH), hardware=hardware, version=st.integers(0, 10**6)
    ),
)


@given(intents)
def test_an_intent_survives_its_journey_over_wire_database_and_disk(intent: Intent) -> None:
    again = Intent.loads(intent.dumps())
    assert again == intent
    assert (again.dumps(), again.etag) == (intent.dumps(), intent.etag)


@given(intents, intents)
def test_the_etag_differs_exactly_when_the_intents_do(one: Intent, other: Intent) -> None:
    assert (one.etag == other.etag) == (one == other)


def test_the_json_form_is_the_documented_one() -> None:
    intent = Intent("AF:00.0", Mode.MDEV, {"00000000:AF:00.0": "nvidia-223"}, "10DE:1EB8", 3)
    assert intent.to_json() == {
        "device": "0000:af:00.0",
        "mode": "mdev",
        "types": {"0000:af:00.0": "nvidia-223"},
        "hardware": "10de:1eb8",
        "version": 3,
    }
    assert Intent.from_json({"device": "mtty_mtty", "mode": "mdev"}) == Intent("mtty_mtty", Mode.MDEV)
    assert Intent("0000:af:00.0", Mode.PASSTHROUGH).is_pci
    assert not Intent("mtty_mtty", Mode.MDEV).is_pci


@pytest.mark.parametrize(
    ("form", "key", "value", "mend"),
    [
        ({"device": "af:00.0", "mode": "passthru"}, "mode", "passthru", "passthrough or mdev"),
        ({"device": "af:00.0", "mode": "sriov"}, "mode", "sriov", "passthrough or mdev"),
        ({"device": "af:00.0", "mode": ["mdev"]}, "mode", ["mdev"], "passthrough or mdev"),
        ({"device": "af:00.0"}, "mode", None, "every intent names a device and a mode"),
        ({"mode": "mdev"}, "device", None, "every intent names a device and a mode"),
        ({"device": 7, "mode": "mdev"}, "device", 7, "a PCI address such as 0000:af:00.0"),
        ({"device": "../../etc", "mode": "mdev"}, "device", "../../etc", "a PCI address such as"),
        ({"device": "mtty_mtty", "mode": "passthrough"}, "mode", "passthrough", "mtty_mtty is no PCI function"),
        (
            {"device": "af:00.0", "mode": "passthrough", "types": {"af:00.0": "nvidia-223"}},
            "types",
            {"af:00.0": "nvidia-223"},
            "none, or mode mdev",
        ),
        ({"device": "af:00.0", "mode": "mdev", "types": ["nvidia-223"]}, "types", ["nvidia-223"], "parent and type"),
        ({"device": "af:00.0", "mode": "mdev", "types": {"x/y": "nvidia-223"}}, "types", "x/y", "a PCI address"),
        ({"device": "af:00.0", "mode": "mdev", "types": {"af:00.0": ""}}, "types.af:00.0", "", "such as nvidia-223"),
        ({"device": "af:00.0", "mode": "mdev", "types": {"af:00.0": "a/b"}}, "types.af:00.0", "a/b", "nvidia-223"),
        (
            {"device": "af:00.0", "mode": "mdev", "types": {"af:00.0": "a", "0000:AF:00.0": "b"}},
            "types",
            "0000:AF:00.0",
            "0000:af:00.0 is there twice",
        ),
        ({"device": "af:00.0", "mode": "mdev", "hardware": "T4"}, "hardware", "T4", "such as 10de:1eb8"),
        ({"device": "af:00.0", "mode": "mdev", "version": -1}, "version", -1, "a whole number from 0 on"),
        ({"device": "af:00.0", "mode": "mdev", "version": True}, "version", True, "a whole number from 0 on"),
        ({"device": "af:00.0", "mode": "mdev", "vfs": 4}, "intent", "vfs", "only the keys device, mode, types"),
        (["af:00.0"], "intent", ["af:00.0"], "an object such as"),
    ],
)
def test_what_is_wrong_is_refused_with_key_value_and_mend(form: object, key: str, value: object, mend: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Intent.loads(json.dumps(form))
    assert caught.value.code == "bad-intent"
    assert (caught.value.details["key"], caught.value.details["value"]) == (key, value)
    assert caught.value.message.startswith(f"{key} is {value!r}; write ")
    assert mend in caught.value.message


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(BadRequest, match="write JSON"):
        Intent.loads("{")
