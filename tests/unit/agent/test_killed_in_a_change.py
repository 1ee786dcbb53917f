"""The agent is killed before or after any write of any change, on every kind of card: its next life goes on to either end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.agent.lab import FLEX, GEFORCE, INSTINCT, INTEGRATED, T4, Lab, cut, whole
from tests.unit.agent.test_end_to_end import kernel_files

from cantle import simulate
from cantle.kernel import mdev
from cantle.model.attach_handle import AttachType
from cantle.wire.intent import DeviceIntent
from cantle.wire.work import Outcome, WantedHandle

CARDS = {
    "T4": T4,
    "GeForce and its audio": GEFORCE,
    "Instinct": INSTINCT,
    "Flex": FLEX,
    "graphics with GVT-g": INTEGRATED,
}
WRITES = {card: 6 if card == GEFORCE else 3 for card in CARDS.values()}
UUID = "11111111-2222-4333-8444-555555555555"

cards = pytest.mark.parametrize("device", CARDS.values(), ids=CARDS)
either = pytest.mark.parametrize("after", [False, True], ids=["before the write", "after the write"])


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def drivers(lab: Lab, device: str) -> set[str | None]:
    slot = device.rpartition(".")[0]
    return {
        lab.root.link_name(f"sys/bus/pci/devices/{one}/driver")
        for one in lab.root.names("sys/bus/pci/devices")
        if one.startswith(slot)
    }


def each_write(lab: Lab, change: Callable[[], object], *, after: bool, writes: int, then: Callable[[], None]) -> None:
    """Kill the change at each of its writes, and see what the next life makes of it."""
    nth = 1
    while lab.killed(nth, change, after=after):
        then()
        nth += 1
    assert nth == writes + 1
    then()


@cards
@either
@pytest.mark.parametrize("forward", [True, False], ids=["goes on", "goes back"])
def test_killed_while_a_card_becomes_whole(lab: Lab, device: str, after: bool, forward: bool) -> None:
    origin = kernel_files(lab.root)

    def then() -> None:
        if forward:
            lab.apply(whole(device))
            assert lab.intents.unready == {}
            assert drivers(lab, device) == {"vfio-pci"}
        lab.apply(DeviceIntent(device, 2))
        assert lab.intents.unready == {}
        assert kernel_files(lab.root) == origin
        assert lab.file.load().taken == {}
        lab.live_again()

    each_write(lab, lambda: lab.apply(whole(device)), after=after, writes=WRITES[device], then=then)


@cards
@either
@pytest.mark.parametrize("forward", [True, False], ids=["goes on", "goes back"])
def test_killed_while_a_card_is_given_back(lab: Lab, device: str, after: bool, forward: bool) -> None:
    origin = kernel_files(lab.root)
    lab.apply(whole(device))

    def then() -> None:
        if not forward:
            lab.apply(whole(device, 3))
            assert lab.intents.unready == {}
            assert drivers(lab, device) == {"vfio-pci"}
        lab.apply(DeviceIntent(device, 4))
        assert kernel_files(lab.root) == origin
        assert lab.file.load().taken == {}
        lab.apply(whole(device, 5))
        lab.live_again()

    each_write(lab, lambda: lab.apply(DeviceIntent(device, 2)), after=after, writes=WRITES[device], then=then)


@either
@pytest.mark.parametrize(
    ("device", "type_id"), [(T4, "nvidia-222"), (INTEGRATED, "i915-GVTg_V5_4")], ids=["T4", "graphics with GVT-g"]
)
def test_killed_while_a_card_goes_from_vfio_pci_to_be_cut(lab: Lab, device: str, type_id: str, after: bool) -> None:
    origin = kernel_files(lab.root)
    lab.apply(whole(device))

    def then() -> None:
        lab.apply(cut(device, type_id, 2))
        assert lab.intents.unready == {}
        assert kernel_files(lab.root) == origin
        lab.apply(whole(device, 3))
        lab.live_again()

    each_write(lab, lambda: lab.apply(cut(device, type_id, 2)), after=after, writes=3, then=then)


SLICES = {
    "T4": ("mixed-lab", T4, "nvidia-223"),
    "graphics with GVT-g": ("mixed-lab", INTEGRATED, "i915-GVTg_V5_8"),
    "serial ports, no PCI function": ("mtty", "mtty", "mtty-2"),
}


@either
@pytest.mark.parametrize(("host", "parent", "type_id"), SLICES.values(), ids=SLICES)
@pytest.mark.parametrize("forward", [True, False], ids=["goes on", "goes back"])
@pytest.mark.parametrize("lending", [True, False], ids=["prepare", "release"])
def test_killed_while_a_slice_is_made_or_removed(
    tmp_path: Path, host: str, parent: str, type_id: str, after: bool, forward: bool, lending: bool
) -> None:
    lab = Lab(tmp_path, described=simulate.load(host))
    unit = WantedHandle(UUID, parent, AttachType.MDEV, {"asked_type": type_id})
    wanted = [mdev.MdevDevice(UUID, type_id, parent)]
    if not lending:
        lab.do(unit)

    def then() -> None:
        for ready in (lending, not lending) if forward else (not lending, lending):
            [result] = lab.do(unit) if ready else lab.do(back=[unit])
            assert result.outcome is (Outcome.READY if ready else Outcome.ABSENT)
            assert mdev.devices(lab.root) == (wanted if ready else [])
        [start] = lab.do(back=[unit]) if lending else lab.do(unit)
        assert start.code is None
        lab.live_again()

    change = (lambda: lab.do(unit)) if lending else (lambda: lab.do(back=[unit]))
    each_write(lab, change, after=after, writes=1, then=then)


@either
@cards
@pytest.mark.parametrize("lending", [True, False], ids=["prepare", "release"])
def test_killed_while_a_whole_card_is_lent_or_taken_back(lab: Lab, device: str, after: bool, lending: bool) -> None:
    origin = kernel_files(lab.root)
    unit = WantedHandle(UUID, device, AttachType.PCI, {})
    if not lending:
        lab.do(unit)

    def then() -> None:
        for ready in (True, False):
            [result] = lab.do(unit) if ready else lab.do(back=[unit])
            assert result.outcome is (Outcome.READY if ready else Outcome.ABSENT)
        assert kernel_files(lab.root) == origin
        assert lab.file.load().taken == {}
        if not lending:
            lab.do(unit)
        lab.live_again()

    change = (lambda: lab.do(unit)) if lending else (lambda: lab.do(back=[unit]))
    resets = 0 if lending else WRITES[device] // 3  # each function is reset before it goes back
    each_write(lab, change, after=after, writes=WRITES[device] + resets, then=then)
