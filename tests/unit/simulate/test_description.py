"""Descriptions of simulated hosts are checked in full before anything is built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.errors import BadRequest
from cantle.simulate import description

CARD = '{address: "0000:01:00.0", vendor: "10de", device: "1eb8", class: "030200"%s}'


def malformed(text: str) -> str:
    with pytest.raises(BadRequest) as caught:
        description.parse(text.encode(), "hosts.yaml")
    assert caught.value.code == "simulation-malformed"
    assert "hosts.yaml" in caught.value.message
    return caught.value.message


@pytest.mark.parametrize("name", description.packaged())
def test_every_packaged_host_is_well_formed_and_named_as_its_file(name: str) -> None:
    assert description.load(name).name == name
    assert description.load(name).summary


def test_t4_and_mtty_are_packaged() -> None:
    assert {"t4", "mtty"} <= set(description.packaged())


def test_a_host_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"{{name: mine, functions: [{CARD % ''}]}}")
    assert description.load(str(path)).functions[0].device == "1eb8"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(BadRequest, match="mtty, t4") as caught:
        description.load("t5")
    assert caught.value.code == "simulation-unknown"


@pytest.mark.parametrize("name", ["../t4", "/etc/absent", "t4.yaml", "a/../../b", "", "."])
def test_anything_that_is_no_name_is_a_file_and_named_when_unreadable(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadRequest) as caught:
        description.load(name)
    assert caught.value.code == "simulation-unreadable"


def test_a_pipe_in_place_of_a_description_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """Nobody writes to it, and opening it never ended."""
    os.mkfifo(tmp_path / "host.yaml")
    with pytest.raises(BadRequest, match="a pipe"):
        description.load(str(tmp_path / "host.yaml"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[1, 2", "hosts.yaml"),
        ("just text", "Expected `object`"),
        ("{}", "name"),
        ("{name: ../up}", "name: '../up'"),
        ("{name: a, colour: red}", "colour"),
        ("{name: a, iommu: maybe}", "iommu"),
        ("{name: a, modules: [../x]}", "modules"),
        (f"{{name: a, functions: [{CARD % ', driver: ../../etc'}]}}", "driver"),
        (f"{{name: a, functions: [{CARD % ''}, {CARD % ''}]}}", "twice"),
        (f"{{name: a, functions: [{CARD % ', iommu_group: 1'}]}}", "iommu is none"),
        (f"{{name: a, functions: [{CARD.replace('01:00', '1:00') % ''}]}}", "write the address as 0000:01:00.0"),
        (f"{{name: a, functions: [{CARD.replace('1eb8', '0x1eb8') % ''}]}}", "device"),
        ("{name: a, functions: [%s]}" % CARD % ', behind: "0000:02:00.0"', "not there"),  # noqa: UP031
        ("{name: a, functions: [%s]}" % CARD % ', behind: "0000:01:00.0"', "behind itself"),  # noqa: UP031
        (f"{{name: a, functions: [{CARD % ', mdev: {capacity: 1, types: []}'}]}}", "name the driver"),
        ("{name: a, parents: [{name: p, path: ../../x, mdev: {capacity: 1, types: []}}]}", "path"),
        ("{name: a, parents: [{name: p, path: virtual/p/p, mdev: {capacity: 1, types: [{id: ../x}]}}]}", "id"),
        ("{name: a, parents: [{name: p, path: virtual/p/p, mdev: {capacity: 1, types: [{id: x, size: 0}]}}]}", "size"),
        ("{name: a, parents: [{name: p, path: virtual/p/p, mdev: {capacity: 1, types: [{id: x}, {id: x}]}}]}", "twice"),
    ],
)
def test_each_mistake_is_named(text: str, says: str) -> None:
    assert says in malformed(text)


def test_a_file_of_unreasonable_size_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_text("#" * ((1 << 20) + 1))
    with pytest.raises(BadRequest, match="more than"):
        description.load(str(path))


@given(st.text(max_size=80) | st.binary(max_size=80).map(lambda data: data.decode("latin-1")))
def test_any_text_is_a_host_or_refused(text: str) -> None:
    try:
        description.parse(f"{{name: a, summary: {text}".encode(), "x")
    except BadRequest:
        return
