"""A tool that fails in the middle of a change of mode: the card is as before, the tool's own words are told, the next try succeeds."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.lab import FLEX, GEFORCE, INSTINCT, INTEGRATED, T4, Lab, whole
from tests.unit.agent.test_end_to_end import kernel_files

from cantle import simulate
from cantle.errors import HostError
from cantle.kernel.tools import Ran
from cantle.wire.intent import DeviceIntent

WORDS = "modprobe: ERROR: could not insert 'vfio_pci': Operation not permitted"
CARDS = [T4, GEFORCE, INSTINCT, FLEX, INTEGRATED]


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """The mixed lab, with vfio-pci on its disk but not loaded."""
    described = simulate.load("mixed-lab")
    modules = tuple(one for one in described.modules if one != "vfio-pci")
    described = msgspec.structs.replace(described, modules=modules, loadable=("vfio-pci",))
    return Lab(tmp_path, described=described)


@pytest.mark.parametrize("device", CARDS)
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Ran(1, WORDS), f"modprobe ended with 1: {WORDS}"),
        (Ran(3, ""), "modprobe ended with 3: it said nothing"),
        (HostError("tool-not-run", "modprobe did not end within 30 s"), "modprobe did not end within 30 s"),
    ],
    ids=["it refuses", "it says nothing", "it hangs"],
)
def test_a_modprobe_that_fails_leaves_the_card_as_it_was_and_its_words_are_told(
    lab: Lab, device: str, fault: Ran | HostError, told: str
) -> None:
    before = kernel_files(lab.root)
    lab.root.fail_tool(fault)
    lab.apply(whole(device))
    code, message = lab.intents.unready[device]
    assert code == "module-load-failed"
    assert told in message
    assert kernel_files(lab.root) == before
    assert (lab.hands.memory.taken, lab.root.written) == ({}, [])
    lab.later()
    lab.apply(whole(device))
    assert lab.intents.unready == {}
    assert lab.root.link_name(f"sys/bus/pci/devices/{device}/driver") == "vfio-pci"
    lab.apply(DeviceIntent(device, 2))
    assert kernel_files(lab.root) == before


@pytest.mark.parametrize("nth", [1, 2, 3, 4, 5, 6])
def test_a_write_that_fails_after_the_module_was_loaded_is_taken_back_all_the_same(lab: Lab, nth: int) -> None:
    before = kernel_files(lab.root)
    lab.root.fail(errno.EIO, nth=nth)
    lab.apply(whole(GEFORCE))
    assert GEFORCE in lab.intents.unready
    assert kernel_files(lab.root) == before
    assert lab.hands.memory.taken == {}
    lab.later()
    lab.apply(whole(GEFORCE))
    assert lab.intents.unready == {}


def test_a_module_that_the_host_does_not_have_is_named_with_the_tool_s_words(tmp_path: Path) -> None:
    described = simulate.load("mixed-lab")
    modules = tuple(one for one in described.modules if one != "vfio-pci")
    lab = Lab(tmp_path, described=msgspec.structs.replace(described, modules=modules))
    before = kernel_files(lab.root)
    lab.apply(whole(FLEX))
    code, message = lab.intents.unready[FLEX]
    assert code == "module-load-failed"
    assert "FATAL: Module vfio-pci not found in directory /lib/modules/" in message
    assert kernel_files(lab.root) == before
