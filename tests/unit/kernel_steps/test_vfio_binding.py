"""Whole units go to vfio-pci and come back as they were."""

from __future__ import annotations

import errno
from pathlib import Path

import msgspec
import pytest
from tests.unit.kernel_steps.pci_bus import BUS, PLACE, PciBus

from cantle.errors import CantleError, Conflict, HostError
from cantle.kernel import unit, vfio
from cantle.kernel.undo import Undo
from cantle.kernel.vfio import Original
from cantle.model.pci import PciAddress
from cantle.model.step import Plan, Step

CARD = PciAddress.parse("0000:01:00.0")
FUNCTIONS = [f"0000:01:00.{number}" for number in range(4)]
NAMED = {"nvidia": FUNCTIONS[0], "snd_hda_intel": FUNCTIONS[1], "xhci_hcd": FUNCTIONS[2]}


def bind(host: PciBus) -> tuple[Original, ...]:
    card = unit.find(host, CARD)
    known = vfio.originals(host, card)
    vfio.apply(host, vfio.plan_bind(host, card))
    return known


def on_vfio(host: PciBus) -> bool:
    return all(host.state()[address] == ("vfio-pci", "vfio-pci") for address in FUNCTIONS)


def refusal(host: PciBus, **options: bool) -> CantleError:
    before, writes = host.state(), len(host.writes)
    with pytest.raises(CantleError) as caught:
        vfio.plan_bind(host, unit.find(host, CARD), **options)
    assert (host.state(), len(host.writes)) == (before, writes)
    return caught.value


def test_every_function_goes_to_vfio_and_returns_to_its_own_driver(host: PciBus) -> None:
    before = host.state()
    known = bind(host)
    assert on_vfio(host)
    assert {address: state for address, state in host.state().items() if address not in FUNCTIONS} == {
        address: state for address, state in before.items() if address not in FUNCTIONS
    }
    card = unit.find(host, CARD)
    assert vfio.is_bound(host, card)
    assert vfio.apply(host, vfio.plan_release(host, card, known)) == []
    assert host.state() == before
    assert not vfio.is_bound(host, card)


def test_the_plan_reads_as_sentences_and_changes_nothing(host: PciBus) -> None:
    plan = vfio.plan_bind(host, unit.find(host, CARD))
    assert host.writes == []
    assert [step.sentence for step in plan.steps[-3:]] == [
        "keep 0000:01:00.0 for vfio-pci alone (driver_override)",
        "take 0000:01:00.0 from the driver nvidia",
        "give 0000:01:00.0 to the driver vfio-pci",
    ]
    assert [step.target for step in plan.steps if step.disruptive] == list(reversed(FUNCTIONS[:3]))
    assert all(step.reversible for step in plan.steps)


def test_plans_and_originals_survive_being_stored_as_json(host: PciBus) -> None:
    card = unit.find(host, CARD)
    plan, known = vfio.plan_bind(host, card), vfio.originals(host, card)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    assert msgspec.json.decode(msgspec.json.encode(known), type=tuple[Original, ...]) == known
    assert msgspec.json.decode(msgspec.json.encode(plan.steps[0]), type=Step) == plan.steps[0]


def test_binding_and_releasing_again_is_nothing_to_do(host: PciBus) -> None:
    known = bind(host)
    writes = len(host.writes)
    assert vfio.plan_bind(host, unit.find(host, CARD)) == Plan()
    vfio.apply(host, vfio.plan_release(host, unit.find(host, CARD), known))
    assert vfio.plan_release(host, unit.find(host, CARD), known) == Plan()
    assert vfio.plan_release(host, unit.find(host, CARD)) == Plan()
    assert len(host.writes) > writes


def test_a_bound_card_in_use_by_a_guest_is_still_nothing_to_do(host: PciBus) -> None:
    bind(host)
    host.open_file(700, "qemu-system-x86", "/dev/vfio/1")
    assert vfio.plan_bind(host, unit.find(host, CARD)) == Plan()


def test_a_function_that_vfio_had_by_preset_ids_is_left_as_it_is(tmp_path: Path) -> None:
    host = PciBus(tmp_path)
    host.driver("vfio-pci", "10de:1e04")
    host.function("0000:01:00.0", "030000", "10de:1e04", driver="vfio-pci", group=1)
    assert vfio.plan_bind(host, unit.find(host, CARD)) == Plan()
    assert vfio.originals(host, unit.find(host, CARD)) == (Original("0000:01:00.0", "10de:1e04", None),)


@pytest.mark.parametrize(
    ("driver", "override"),
    [("nvidia", "vfio-pci"), (None, "vfio-pci"), (None, ""), ("nouveau", "nouveau")],
)
def test_binding_goes_on_from_any_half_done_state(host: PciBus, driver: str | None, override: str) -> None:
    host.restore({"0000:01:00.0": (driver, override)})
    bind(host)
    assert on_vfio(host)


def test_the_origin_is_known_although_the_change_was_cut_off_anywhere(host: PciBus) -> None:
    before = host.state()
    card = unit.find(host, CARD)
    known = vfio.originals(host, card)
    for step in vfio.plan_bind(host, card).steps:
        with Undo() as undo:
            vfio.EXECUTORS[step.name](host, step, undo)
        assert vfio.originals(host, unit.find(host, CARD), known) == known
    vfio.apply(host, vfio.plan_release(host, unit.find(host, CARD), known))
    assert host.state() == before


def test_a_release_that_was_cut_off_anywhere_ends_at_the_origin(host: PciBus) -> None:
    before = host.state()
    known = bind(host)
    steps = vfio.plan_release(host, unit.find(host, CARD), known).steps
    for cut in range(len(steps)):
        for step in steps[:cut]:
            with Undo() as undo:
                vfio.EXECUTORS[step.name](host, step, undo)
        vfio.apply(host, vfio.plan_release(host, unit.find(host, CARD), known))
        assert host.state() == before, f"cut off before step {cut}"
        bind(host)


def test_a_bind_that_got_no_further_than_the_override_is_taken_back_without_touching_the_driver(host: PciBus) -> None:
    host.restore({"0000:01:00.0": ("nvidia", "vfio-pci")})
    plan = vfio.plan_release(host, unit.find(host, CARD))
    assert [step.name for step in plan.steps] == ["set-override"]
    vfio.apply(host, plan)
    assert host.state()["0000:01:00.0"] == ("nvidia", "")


def test_a_plan_that_somebody_else_has_carried_out_meanwhile_still_succeeds(host: PciBus) -> None:
    plan = vfio.plan_bind(host, unit.find(host, CARD))
    vfio.apply(host, plan)
    done = host.state()
    vfio.apply(host, Plan(tuple(step for step in plan.steps if not step.disruptive)))
    assert host.state() == done


def test_a_function_that_another_driver_grabs_in_between_is_not_torn_from_it(host: PciBus) -> None:
    plan = vfio.plan_bind(host, unit.find(host, CARD))
    host.restore({"0000:01:00.3": ("pcieport", "")})
    with pytest.raises(Conflict, match=r"0000:01:00\.3 is on the driver pcieport now, not none") as caught:
        vfio.apply(host, plan)
    assert caught.value.code == "plan-outdated"
    assert host.state()["0000:01:00.3"] == ("pcieport", "")


def test_without_the_stored_origin_the_kernel_chooses_by_ids_and_a_person_is_told(host: PciBus) -> None:
    bind(host)
    plan = vfio.plan_release(host, unit.find(host, CARD))
    assert plan.warnings[0] == "the driver that 0000:01:00.0 came from is not known: the kernel chooses by its ids"
    notes = vfio.apply(host, plan)
    assert {name: host.state()[address] for name, address in NAMED.items() if name != "nvidia"} == {
        name: (name, "") for name in NAMED if name != "nvidia"
    }
    assert host.state()["0000:01:00.0"] == ("nouveau", "")  # the first that matches, as the kernel does it
    assert host.state()["0000:01:00.3"] == (None, "")
    assert notes == ["no driver that is loaded wants 0000:01:00.3; it is on none now"]


def test_what_is_known_of_another_card_at_the_address_does_not_count(host: PciBus) -> None:
    bind(host)
    other = [Original("0000:01:00.0", "10de:1eb8", "nouveau")]
    assert vfio.originals(host, unit.find(host, CARD), other)[0].driver is None


def test_a_driver_bound_by_override_is_bound_by_override_again(host: PciBus) -> None:
    for rel, text in (
        (f"{BUS}/drivers/nvidia/unbind", FUNCTIONS[0]),
        (f"{PLACE}/{FUNCTIONS[0]}/driver_override", "pci-stub"),
    ):
        host.write(rel, text)
    host.driver("pci-stub")
    host.write(f"{BUS}/drivers/pci-stub/bind", FUNCTIONS[0])
    before = host.state()
    known = bind(host)
    vfio.apply(host, vfio.plan_release(host, unit.find(host, CARD), known))
    assert host.state() == before


def test_preset_ids_that_take_the_card_back_are_an_error_that_names_them(tmp_path: Path) -> None:
    host = PciBus(tmp_path)
    host.driver("vfio-pci", "10de:1e04")
    host.function("0000:01:00.0", "030000", "10de:1e04", driver="vfio-pci", group=1)
    before = host.state()
    with pytest.raises(HostError, match=r"preset.*vfio-pci\.ids") as caught:
        vfio.apply(host, vfio.plan_release(host, unit.find(host, CARD)))
    assert caught.value.code == "driver-bind-refused"
    assert host.state() == before


def test_an_original_driver_that_refuses_is_named_and_the_card_stays_with_vfio(host: PciBus) -> None:
    known = bind(host)
    before = host.state()
    host.ids["nvidia"].clear()
    with pytest.raises(
        HostError, match=r"nvidia did not take 0000:01:00\.0: the driver does not serve.*ENODEV"
    ) as caught:
        vfio.apply(host, vfio.plan_release(host, unit.find(host, CARD), known))
    assert (caught.value.code, caught.value.errno) == ("driver-bind-refused", errno.ENODEV)
    assert caught.value.path == "/sys/bus/pci/drivers/nvidia/bind"
    assert host.state() == before


def test_an_original_driver_that_is_not_loaded_is_refused_before_anything_is_touched(host: PciBus) -> None:
    known = bind(host)
    for file in ("bind", "unbind"):
        (host.base / BUS / "drivers/nvidia" / file).unlink()
    writes = len(host.writes)
    with pytest.raises(Conflict, match=r"no driver nvidia now.*modprobe nvidia") as caught:
        vfio.plan_release(host, unit.find(host, CARD), known)
    assert caught.value.code == "driver-not-loaded"
    assert len(host.writes) == writes


def test_a_missing_vfio_module_is_named_with_its_mend_and_loaded_only_when_asked(host: PciBus) -> None:
    for file in ("bind", "unbind"):
        (host.base / BUS / "drivers/vfio-pci" / file).unlink()
    error = refusal(host)
    assert error.code == "driver-not-loaded"
    assert "modprobe vfio-pci" in error.message
    plan = vfio.plan_bind(host, unit.find(host, CARD), load_module=True)
    assert plan.steps[0] == Step("load-module", "vfio-pci", {}, False, False, "load the module vfio-pci")
    before = host.state()
    with pytest.raises(HostError, match="only the machine itself can run modprobe"):
        vfio.apply(host, plan)
    assert host.state() == before

    def load(_root: object, step: Step, _undo: Undo) -> None:
        host.driver(step.target)

    vfio.apply(host, plan, executors={**vfio.EXECUTORS, "load-module": load})
    assert on_vfio(host)


def test_a_physical_function_with_virtual_ones_is_not_rebound_in_either_direction(tmp_path: Path) -> None:
    host = PciBus(tmp_path)
    host.driver("vfio-pci")
    host.driver("nvidia", "10de:1e04")
    host.function("0000:01:00.0", "030200", "10de:1e04", driver="nvidia", group=1, vfs=2)
    error = refusal(host)
    assert error.code == "vfs-enabled"
    assert "/sys/bus/pci/devices/0000:01:00.0/sriov_numvfs" in error.message
    host.put(f"{PLACE}/0000:01:00.0/sriov_numvfs", "0\n")
    known = bind(host)
    host.put(f"{PLACE}/0000:01:00.0/sriov_numvfs", "2\n")
    with pytest.raises(Conflict) as caught:
        vfio.plan_release(host, unit.find(host, CARD), known)
    assert caught.value.code == "vfs-enabled"


def test_a_card_that_somebody_uses_is_refused_with_pid_and_command_in_both_directions(host: PciBus) -> None:
    host.put("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t GeForce\nDevice Minor: \t 0\n")
    host.open_file(812, "nvidia-persiste", "/dev/nvidia0")
    error = refusal(host)
    assert error.code == "device-held"
    assert "pid 812 (nvidia-persiste) has /dev/nvidia0 open" in error.message
    (host.base / "proc/812/fd/0").unlink()
    known = bind(host)
    host.open_file(900, "qemu-system-x86", "/dev/vfio/1")
    with pytest.raises(Conflict, match=r"pid 900 \(qemu-system-x86\) has /dev/vfio/1 open"):
        vfio.plan_release(host, unit.find(host, CARD), known)
    assert on_vfio(host)


def test_somebody_who_comes_between_plan_and_apply_is_still_not_cut_off(host: PciBus) -> None:
    plan = vfio.plan_bind(host, unit.find(host, CARD))
    before = host.state()
    host.put(f"{PLACE}/0000:01:00.0/drm/card0/dev", "226:0\n")
    host.open_file(55, "Xorg", "/dev/dri/card0")
    with pytest.raises(Conflict, match=r"pid 55 \(Xorg\)"):
        vfio.apply(host, plan)
    assert host.state() == before


def test_a_plan_that_is_no_longer_true_is_refused_and_taken_back(host: PciBus) -> None:
    plan = vfio.plan_bind(host, unit.find(host, CARD))
    host.write(f"{BUS}/drivers/nvidia/unbind", "0000:01:00.0")
    host.write(f"{BUS}/drivers/nouveau/bind", "0000:01:00.0")
    before = host.state()
    with pytest.raises(Conflict, match="is on the driver nouveau now, not nvidia") as caught:
        vfio.apply(host, plan)
    assert caught.value.code == "plan-outdated"
    assert host.state() == before


def test_the_console_going_dark_is_said_beforehand(host: PciBus) -> None:
    host.put(f"{PLACE}/0000:01:00.0/boot_vga", "1\n")
    assert vfio.plan_bind(host, unit.find(host, CARD)).warnings == (
        "the host's console is on 0000:01:00.0: its picture stops, use the network or a serial console",
    )


def test_a_larger_change_takes_the_binding_back_with_the_rest(host: PciBus) -> None:
    before = host.state()
    plan = vfio.plan_bind(host, unit.find(host, CARD))

    def larger_change() -> None:
        with Undo() as undo:
            vfio.apply(host, plan, undo)
            assert on_vfio(host)
            raise RuntimeError("a later step fails")

    with pytest.raises(RuntimeError, match="a later step"):
        larger_change()
    assert host.state() == before


def test_a_card_pulled_out_half_way_is_told_and_the_rest_put_back(host: PciBus) -> None:
    before = host.state()
    del before["0000:01:00.0"]
    plan = vfio.plan_bind(host, unit.find(host, CARD))

    def pull(number: int) -> None:
        if host.writes[number] == (f"{BUS}/drivers/vfio-pci/bind", "0000:01:00.0"):
            host.remove("0000:01:00.0")

    host.fault = pull
    with pytest.raises(HostError, match=r"0000:01:00\.0: it has gone from the bus meanwhile") as caught:
        vfio.apply(host, plan)
    assert caught.value.code == "driver-bind-refused"
    assert host.state() == before
