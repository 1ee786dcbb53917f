"""When two spellings mean one host, and what a uuid is."""

from __future__ import annotations

import pytest

from cantle.errors import BadRequest
from cantle.model import uuids
from cantle.model.host import same_host

SAME = [
    ("a", "a"),
    ("a", "A"),
    ("a", "a.example.org"),
    ("a.example.org", "a"),
    ("a.example.org", "A.Example.Org."),
    ("a", " a "),
]
DIFFERENT = [("a", "b"), ("a.x", "a.y"), ("a", "ab"), ("a", "ab.x"), ("", "a"), ("", "a.x"), (".x", "")]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_spellings_of_one_host(one: str, other: str) -> None:
    assert same_host(one, other)
    assert same_host(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_names_of_two_hosts(one: str, other: str) -> None:
    assert not same_host(one, other)
    assert not same_host(other, one)


KEPT = "0b9c1f6e-0000-4aaa-8bbb-0123456789ab"


@pytest.mark.parametrize("text", [KEPT, KEPT.upper(), KEPT.replace("-", ""), KEPT.replace("-", "").upper()])
def test_spellings_of_one_uuid(text: str) -> None:
    assert uuids.canonical(text) == KEPT
    assert uuids.checked(text, "x") == KEPT


@pytest.mark.parametrize(
    "text", ["", "x", KEPT[:-1], "{" + KEPT + "}", "urn:uuid:" + KEPT, KEPT + "\n", KEPT.replace("-", "_"), 7, None]
)
def test_what_is_no_uuid(text: object) -> None:
    assert uuids.canonical(text) is None
    with pytest.raises(BadRequest) as caught:
        uuids.checked(text, "instance_uuid")
    assert caught.value.code == "bad-uuid"
    assert "instance_uuid" in caught.value.message
