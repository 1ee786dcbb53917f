"""``cantle lease create --attach`` against a real server and its agent, on a simulated host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
from tests.unit.cli.serving import Serving, serving

SCHEMA = json.loads((Path(__file__).parents[1] / "attach" / "cdi.schema.json").read_text())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Serving]:
    """A server with two cards, and a profile for one."""
    with serving(tmp_path) as running:
        running.await_capacity()
        assert running.cantle("profile", "create", "card", "--group", "resources:PGPU=1").code == 0
        yield running


def files(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.rglob("run/cdi/*.json"))


def test_what_is_borrowed_for_a_container_is_there_when_the_command_returns_and_gone_after_release(
    server: Serving, tmp_path: Path
) -> None:
    lease = server.json("lease", "create", "card", "--attach", "cdi:train", "--wait")
    assert (lease["state"], lease["attach"]) == ("active", "cdi:train")
    [file] = files(tmp_path)
    spec = json.loads(file.read_text())
    jsonschema.validate(spec, SCHEMA)
    assert [device["name"] for device in spec["devices"]] == ["train"]
    assert server.cantle("lease", "release", lease["uuid"], "--wait").code == 0
    assert files(tmp_path) == []


def test_there_is_no_xml_for_what_goes_into_a_container_by_itself(server: Serving) -> None:
    lease = server.json("lease", "create", "card", "--attach", "cdi:train", "--wait")
    done = server.cantle("lease", "xml", lease["uuid"])
    assert done.code == 4
    assert "lease-in-container" in done.err
    assert "cdi:train" in done.err


def test_a_guest_that_is_not_there_is_named_and_the_command_says_how_to_go_on(server: Serving) -> None:
    done = server.cantle("lease", "create", "card", "--attach", "lxc:nobody", "--wait")
    assert done.code == 1
    assert "there is no LXC container nobody" in done.err
    assert "cantle lease release" in done.err


def test_what_is_no_guest_is_refused(server: Serving) -> None:
    done = server.cantle("lease", "create", "card", "--attach", "docker:c1")
    assert done.code == 2
    assert "bad-attachment" in done.err


def test_a_lease_that_nobody_attached_is_written_for_libvirt_whole_or_a_unit_of_it(server: Serving) -> None:
    both = ("--group", "resources:VGPU=1", "--group", "resources:PGPU=1")
    assert server.cantle("profile", "create", "both", *both).code == 0
    lease = server.json("lease", "create", "both", "--wait")
    whole = server.cantle("lease", "xml", lease["uuid"])
    assert (whole.code, whole.out.count("<hostdev")) == (0, 2)
    unit = {arq["attach_handle_type"]: arq["attach_handle_uuid"] for arq in lease["arqs"]}
    one = server.cantle("lease", "xml", unit["MDEV"])
    assert (one.code, one.out.count("<hostdev")) == (0, 1)
    assert f'<address uuid="{unit["MDEV"]}" />' in one.out
    assert one.out in whole.out
    assert 'display="on" ramfb="on"' in server.cantle("lease", "xml", "--display", "--ramfb", unit["MDEV"]).out
    for words, code in (
        (["00000000-0000-4000-8000-000000000000"], "lease-not-found"),
        (["--display", unit["PCI"]], "no-screen"),
        (["--ramfb", lease["uuid"]], "--ramfb goes with --display"),
    ):
        assert code in server.cantle("lease", "xml", *words).err


def test_a_flavor_s_cards_go_into_a_guest_too(server: Serving) -> None:
    assert server.cantle("flavor", "create", "one-card", "--spec", "resources:PGPU=1").code == 0
    lease = server.json("lease", "create", "--flavor", "one-card", "--attach", "cdi:train", "--wait")
    assert (lease["state"], lease["profile_name"], lease["attach"]) == ("active", "one-card", "cdi:train")
    assert server.cantle("lease", "release", lease["uuid"], "--wait").code == 0
    assert server.json("lease", "create", "--profile", "card", "--wait")["profile_name"] == "card"
    for words in ([], ["card", "--flavor", "one-card"]):
        assert "Name one profile or one flavor." in server.cantle("lease", "create", *words).err
