"""Every write of a change of mode fails once, for every card of a mixed host: the card is as before, and the next try succeeds."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.unit.agent.lab import FLEX, GEFORCE, INSTINCT, INTEGRATED, SHARED, T4, Lab, cut, whole
from tests.unit.agent.test_end_to_end import kernel_files
from tests.unit.drivers.hosts import devices

from cantle.drivers.amd import AmdDriver
from cantle.model.attach_handle import AttachType
from cantle.model.device import Health, Mode
from cantle.model.enabled_types import EnabledTypes
from cantle.wire.intent import DeviceIntent
from cantle.wire.work import WantedHandle

UUID = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EIO, errno.ENODEV], ids=errno.errorcode.get)
@pytest.mark.parametrize("after", [False, True], ids=["refused", "done and then refused"])
@pytest.mark.parametrize(
    ("device", "writes"), [(T4, 3), (GEFORCE, 6), (INSTINCT, 3), (FLEX, 3), (INTEGRATED, 3)], ids=str
)
def test_whatever_write_fails_the_card_is_as_before_and_the_next_try_succeeds(
    lab: Lab, device: str, writes: int, code: int, after: bool
) -> None:
    origin = kernel_files(lab.root)
    version = 0
    for nth in range(1, writes + 1):
        for wish, driver in ((Mode.PASSTHROUGH, "vfio-pci"), (None, None)):
            version += 1
            before = kernel_files(lab.root)
            taken = lab.hands.memory.taken
            lab.root.fail(code, nth=nth, after=after)
            lab.apply(DeviceIntent(device, version, wish))
            if device in lab.intents.unready:
                assert kernel_files(lab.root) == before
                assert lab.hands.memory.taken == taken
                lab.apply(DeviceIntent(device, version, wish))
                assert kernel_files(lab.root) == before, "it was tried again without a pause"
                lab.later()
                lab.apply(DeviceIntent(device, version, wish))
            assert lab.intents.unready == {}
            if driver is not None:
                assert lab.root.link_name(f"sys/bus/pci/devices/{device}/driver") == driver
            else:
                assert kernel_files(lab.root) == origin
                assert lab.hands.memory.taken == {}


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_a_card_on_its_way_back_to_be_cut_stays_on_vfio_pci_when_a_write_fails(lab: Lab, nth: int) -> None:
    lab.apply(whole(T4))
    held = kernel_files(lab.root)
    lab.root.fail(errno.EIO, nth=nth)
    lab.apply(cut(T4, "nvidia-222", 2))
    assert lab.intents.unready[T4][0] in ("driver-override-refused", "driver-unbind-refused", "driver-bind-refused")
    assert kernel_files(lab.root) == held
    assert lab.intents.in_force[T4].mode is Mode.PASSTHROUGH
    lab.later()
    lab.apply(cut(T4, "nvidia-222", 2))
    assert lab.intents.in_force[T4].types == {T4: "nvidia-222"}


def test_a_card_that_could_not_follow_is_degraded_offers_nothing_and_says_why_until_it_has(lab: Lab) -> None:
    """What it was until then is not what is wanted of it, so nothing of that is published either."""
    seen = devices(lab.root, AmdDriver())[INSTINCT]
    assert len(seen.deployables) == 1
    lab.root.fail(errno.EIO)
    lab.apply(whole(INSTINCT))
    told = lab.intents.told(seen)
    assert (told.health, told.deployables) == (Health.DEGRADED, ())
    assert (told.intent_version, told.intent_tried) == (0, 1)
    assert told.reason == f"intent 1 could not be applied: {told.intent_code}: {told.intent_error}"
    lab.later()
    lab.apply(whole(INSTINCT))
    told = lab.intents.told(devices(lab.root, AmdDriver())[INSTINCT])
    assert (told.health, len(told.deployables), told.intent_version) == (Health.OK, 1, 1)


def test_a_type_that_the_driver_never_offers_takes_the_card_back_to_vfio_pci_after_a_bounded_wait(lab: Lab) -> None:
    lab.apply(whole(T4))
    held, taken = kernel_files(lab.root), lab.hands.memory.taken
    lab.apply(cut(T4, "nvidia-999", 2))
    code, message = lab.intents.unready[T4]
    assert code == "mdev-type-missing"
    assert "it offers nvidia-222, nvidia-223, nvidia-234" in message
    assert 9.0 < sum(lab.waited) <= 10.0
    assert (kernel_files(lab.root), lab.hands.memory.taken) == (held, taken)


def test_a_card_whose_group_holds_a_network_card_is_not_touched(lab: Lab) -> None:
    before = kernel_files(lab.root)
    lab.apply(whole(SHARED), whole(FLEX))
    code, message = lab.intents.unready[SHARED]
    assert code == "iommu-group-shared"
    assert "0000:66:00.0" in message
    assert lab.root.link_name(f"sys/bus/pci/devices/{FLEX}/driver") == "vfio-pci"
    lab.apply(whole(SHARED))
    changed = {key for key, value in kernel_files(lab.root).items() if before[key] != value}
    assert changed == {f"driver of {FLEX}", f"override of {FLEX}"}


def test_a_unit_of_card_and_audio_goes_and_comes_back_together(lab: Lab) -> None:
    origin = kernel_files(lab.root)
    lab.apply(whole(GEFORCE))
    drivers = [lab.root.link_name(f"sys/bus/pci/devices/0000:17:00.{one}/driver") for one in "01"]
    assert drivers == ["vfio-pci", "vfio-pci"]
    lab.apply(DeviceIntent(GEFORCE, 2))
    assert kernel_files(lab.root) == origin


def test_what_is_lent_keeps_a_card_as_it_is(lab: Lab) -> None:
    lab.apply(whole(T4))
    held = kernel_files(lab.root)
    lent = WantedHandle(UUID, T4, AttachType.PCI, {})
    for wish in (cut(T4, "nvidia-223", 2), DeviceIntent(T4, 3)):
        lab.apply(wish, lent=[lent])
        assert kernel_files(lab.root) == held
    lab.apply(DeviceIntent(T4, 4))
    assert lab.root.link_name(f"sys/bus/pci/devices/{T4}/driver") == "nvidia"
    slice_of_it = WantedHandle(UUID, T4, AttachType.MDEV, {"asked_type": "nvidia-223"})
    lab.apply(whole(T4, 5), lent=[slice_of_it])
    assert lab.intents.unready[T4][0] == "device-in-use"


def test_an_intent_without_a_type_takes_the_configured_one_and_none_without_any(tmp_path: Path) -> None:
    lab = Lab(tmp_path, EnabledTypes())
    lab.apply(DeviceIntent(T4, 1, Mode.MDEV))
    assert lab.intents.unready[T4][0] == "mdev-type-not-chosen"
    assert "name one of those in 'cantle device show 0000:af:00.0'" in lab.intents.unready[T4][1]
    assert "cantle device set-mode 0000:af:00.0 mdev --type TYPE" in str(lab.intents.unready[T4])
    lab.apply(cut("0000:00:02.0", "i915-GVTg_V5_4"), DeviceIntent(T4, 2, Mode.MDEV, {"0000:af:00.4": "nvidia-223"}))
    assert lab.intents.unready[T4][0] == "mode-not-possible"
    assert INTEGRATED in lab.intents.in_force


def test_a_card_that_was_moved_by_hand_is_brought_back(lab: Lab) -> None:
    lab.apply(whole(FLEX))
    for file, text in (("driver_override", "\n"),):
        lab.root.write(f"sys/bus/pci/devices/{FLEX}/{file}", text)
    lab.root.write("sys/bus/pci/drivers/vfio-pci/unbind", FLEX)
    lab.root.write("sys/bus/pci/drivers/i915/bind", FLEX)
    lab.apply(whole(FLEX))
    assert lab.root.link_name(f"sys/bus/pci/devices/{FLEX}/driver") == "vfio-pci"


def test_a_card_that_is_not_there_is_left_for_when_it_comes(lab: Lab) -> None:
    lab.apply(whole("0000:ee:00.0"), whole(FLEX))
    lab.root.unplug(FLEX)
    lab.apply(whole(FLEX))
    assert (lab.intents.unready, lab.intents.in_force) == ({}, {})
    lab.root.reboot()
    lab.apply(whole(FLEX))
    assert lab.root.link_name(f"sys/bus/pci/devices/{FLEX}/driver") == "vfio-pci"


def test_tries_come_less_and_less_often_and_a_new_wish_is_tried_at_once(lab: Lab) -> None:
    lab.apply(whole(FLEX))
    lab.root.hold(FLEX)
    tries = []
    while lab.time < 1600.0:
        lab.apply(DeviceIntent(FLEX, 2))
        assert lab.intents.retry_at is not None
        tries.append(lab.time)
        lab.time = lab.intents.retry_at
    assert 10 <= len(tries) <= 30
    lab.root.let_go()
    lab.apply(DeviceIntent(FLEX, 3))
    assert lab.root.link_name(f"sys/bus/pci/devices/{FLEX}/driver") == "i915"
