"""``cantle cdi generate`` on simulated hosts."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from cantle.cli.main import run
from cantle.simulate.description import load
from cantle.simulate.root import build

SCHEMA = json.loads((Path(__file__).parents[1] / "attach" / "cdi.schema.json").read_text())


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host with two NVIDIA cards and a BMC's screen."""
    build(load("t4"), tmp_path / "t4")
    return tmp_path / "t4"


def test_every_card_has_a_name_and_all_have_one_together(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cdi", "generate", "--root", str(host)]) == 0
    spec = json.loads(capsys.readouterr().out)
    jsonschema.validate(spec, SCHEMA)
    nodes = {
        device["name"]: {one["path"] for one in device["containerEdits"]["deviceNodes"]} for device in spec["devices"]
    }
    assert set(nodes) == {"0000:86:00.0", "0000:af:00.0", "all"}
    assert nodes["all"] == nodes["0000:86:00.0"] | nodes["0000:af:00.0"]
    assert "/dev/nvidia1" in nodes["0000:86:00.0"]
    assert "/dev/nvidia1" not in nodes["0000:af:00.0"]


def test_a_card_without_nodes_is_named_and_hides_no_other(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (host / "sys/bus/pci/devices/0000:86:00.0/driver").unlink()
    assert run(["cdi", "generate", "--root", str(host), "--output", str(host / "etc/cdi/cantle.json")]) == 0
    said = capsys.readouterr()
    assert "0000:86:00.0" in said.err
    assert "no-device-nodes" in said.err
    spec = json.loads((host / "etc/cdi/cantle.json").read_text())
    jsonschema.validate(spec, SCHEMA)
    assert [device["name"] for device in spec["devices"]] == ["0000:af:00.0", "all"]


def test_a_machine_without_cards_gets_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(load("mtty"), tmp_path / "mtty")
    assert run(["cdi", "generate", "--root", str(tmp_path / "mtty"), "--output", str(tmp_path / "out.json")]) == 4
    assert "no-device-nodes" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_a_file_that_cannot_be_written_is_named(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (host / "etc").mkdir()
    (host / "etc/cdi").write_text("")
    assert run(["cdi", "generate", "--root", str(host), "--output", str(host / "etc/cdi/cantle.json")]) == 1
    assert "output-unwritable" in capsys.readouterr().err
