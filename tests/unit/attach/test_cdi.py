"""CDI files: what engines read, and whose they are."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.attach import cdi
from cantle.errors import Conflict, HostError
from cantle.kernel.char_device import Node
from cantle.kernel.root import Root
from cantle.model.attachment import Attachment, GuestKind

SCHEMA = json.loads(Path(__file__).with_name("cdi.schema.json").read_text())
LEASE = "2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1"
OTHER = "00000000-0000-4000-8000-000000000001"
NODES = (
    Node("/dev/nvidia0", 195, 0),
    Node("/dev/dri/renderD131", 226, 131),
    Node("/dev/nvidiactl", 195, 255, shared=True),
)
RENDER = (Node("/dev/dri/renderD128", 226, 128),)

names = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", fullmatch=True)
nodes = st.builds(
    Node,
    st.sampled_from(["/dev/nvidia0", "/dev/dri/renderD128", "/dev/kfd", "/dev/nvidia-caps/nvidia-cap21"]),
    st.integers(1, 511),
    st.integers(0, 255),
)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A host without any CDI directory yet."""
    return Root(tmp_path)


def read(root: Root, lease: str = LEASE) -> dict[str, Any]:
    data = cdi.read(root, lease)
    assert data is not None
    loaded: dict[str, Any] = json.loads(data)
    jsonschema.validate(loaded, SCHEMA)
    return loaded


@given(st.dictionaries(names, st.lists(nodes, min_size=1, max_size=4), min_size=1, max_size=4))
def test_whatever_is_written_is_a_good_specification(devices: dict[str, list[Node]]) -> None:
    jsonschema.validate(json.loads(cdi.document(cdi.LEASE_KIND, devices)), SCHEMA)


@given(names)
def test_every_name_that_an_attachment_may_have_is_a_good_device_name(name: str) -> None:
    attachment = Attachment.parse(f"cdi:{name}")
    assert attachment == Attachment(GuestKind.CDI, name)
    jsonschema.validate(json.loads(cdi.document(cdi.LEASE_KIND, {attachment.name: RENDER})), SCHEMA)


def test_a_lease_is_one_file_with_one_device_of_its_name(root: Root) -> None:
    cdi.write(root, LEASE, "train", NODES)
    assert root.names("run/cdi") == [f"cantle-lease-{LEASE}.json"]
    assert read(root) == {
        "cdiVersion": "0.3.0",
        "kind": "cantle/lease",
        "devices": [
            {
                "name": "train",
                "containerEdits": {
                    "env": ["NVIDIA_VISIBLE_DEVICES=void"],
                    "deviceNodes": [
                        {"path": "/dev/dri/renderD131", "type": "c", "permissions": "rw"},
                        {"path": "/dev/nvidia0", "type": "c", "permissions": "rw"},
                        {"path": "/dev/nvidiactl", "type": "c", "permissions": "rw"},
                    ],
                },
            }
        ],
    }


@pytest.mark.parametrize(
    ("kind", "name", "version"),
    [("cantle/lease", "a", "0.3.0"), ("cantle/lease", "0a", "0.5.0"), ("cantle/a.b", "a", "0.6.0")],
)
def test_the_lowest_version_that_has_what_is_needed(kind: str, name: str, version: str) -> None:
    assert json.loads(cdi.document(kind, {name: RENDER}))["cdiVersion"] == version


def test_numbers_are_left_to_the_engine(root: Root) -> None:
    cdi.write(root, LEASE, "train", NODES)
    assert b"major" not in (cdi.read(root, LEASE) or b"major")


def test_a_name_that_another_lease_has_is_refused_and_its_file_stays(root: Root) -> None:
    cdi.write(root, OTHER, "train", RENDER)
    with pytest.raises(Conflict, match=OTHER) as caught:
        cdi.write(root, LEASE, "train", NODES)
    assert caught.value.code == "cdi-name-taken"
    assert cdi.read(root, LEASE) is None
    assert read(root, OTHER)["devices"][0]["name"] == "train"


def test_files_of_others_are_neither_read_nor_touched(root: Root, tmp_path: Path) -> None:
    (tmp_path / "run/cdi").mkdir(parents=True)
    for name in ("vendor.yaml", "cantle-lease-broken.json"):
        (tmp_path / "run/cdi" / name).write_text("{")
    cdi.write(root, LEASE, "train", RENDER)
    cdi.remove(root, LEASE)
    assert root.names("run/cdi") == ["cantle-lease-broken.json", "vendor.yaml"]


def test_removing_what_is_not_there_is_no_error(root: Root) -> None:
    cdi.remove(root, LEASE)
    assert root.names("run/cdi") == []


def test_a_directory_in_the_files_place_is_said_and_left(root: Root, tmp_path: Path) -> None:
    (tmp_path / cdi.path(LEASE)).mkdir(parents=True)
    with pytest.raises(HostError, match="no plain file") as caught:
        cdi.write(root, LEASE, "train", RENDER)
    assert caught.value.code == "host-write-failed"
    assert root.names("run/cdi") == [f"cantle-lease-{LEASE}.json"]


@pytest.mark.parametrize("devices", [{}, {"train": ()}])
def test_an_empty_file_is_not_written_since_engines_refuse_it(devices: dict[str, tuple[Node, ...]]) -> None:
    with pytest.raises(Conflict) as caught:
        cdi.document(cdi.LEASE_KIND, devices)
    assert caught.value.code == "no-device-nodes"


def test_engines_of_users_may_look_for_leases_though_the_agents_own_files_are_for_nobody_else(tmp_path: Path) -> None:
    """Its unit has UMask=0077."""
    before = os.umask(0o077)
    try:
        cdi.write(Root(tmp_path), LEASE, "train", [Node("/dev/nvidia0", 195, 0)])
    finally:
        os.umask(before)
    place = tmp_path / cdi.path(LEASE)
    assert [stat.S_IMODE(one.stat().st_mode) for one in (place.parent, place)] == [0o755, 0o644]
