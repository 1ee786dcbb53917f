"""Guests that are waited for: one that takes its time holds up nobody else's lease, and what comes of it in the end is told once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.service import M40, T4

from cantle import simulate
from cantle.agent import entering, entries
from cantle.agent.converge import observe, plan
from cantle.agent.desired import Desired, DesiredFile
from cantle.agent.hands import Hands
from cantle.attach.domains import DEFINED
from cantle.kernel import mdev
from cantle.kernel.root import Root
from cantle.kernel.tools import Ran
from cantle.kernel.undo import Undo
from cantle.model.attach_handle import AttachType
from cantle.model.step import Step
from cantle.wire.work import Guest, HandleResult, Outcome, WantedHandle, Work

FIRST = "11111111-2222-4333-8444-555555555555"
SECOND = "11111111-2222-4333-8444-666666666666"
THIRD = "11111111-2222-4333-8444-777777777777"
LEASE = "2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1"


def slice_for(name: str, uuid: str) -> WantedHandle:
    return WantedHandle(uuid, T4, AttachType.MDEV, {"asked_type": "nvidia-223"}, Guest("libvirt", name, LEASE))


class Virsh:
    """What puts devices into domains' files. It does not come back from calls about ``slow`` until it is let go, and then refuses."""

    def __init__(self, host: simulate.SimulatedRoot) -> None:
        self._host = host
        self.let_go = threading.Event()
        self.calls: list[str] = []
        self.refuses = True

    def run(self, argv: Sequence[str], seconds: float) -> Ran:  # noqa: ARG002 - as the real one's
        """``virsh -q -c URI attach-device|detach-device NAME FILE FLAG``."""
        command, name, file = argv[4:7]
        self.calls.append(f"{command} {name}")
        if name == "slow":
            assert self.let_go.wait(30)
            if self.refuses:
                return Ran(1, "error: Timed out during operation")
        device = self._host.read(file.lstrip("/")) if command == "attach-device" else ""
        define(self._host, name, device)
        return Ran(0, "")


def define(host: simulate.SimulatedRoot, name: str, device: str = "") -> None:
    place = Path(host.path) / DEFINED / f"{name}.xml"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(f"<domain><name>{name}</name><uuid>{LEASE}</uuid><devices>{device}</devices></domain>")


@pytest.fixture
def virsh(t4: simulate.SimulatedRoot, monkeypatch: pytest.MonkeyPatch) -> Iterator[Virsh]:
    """Two domains, of which one is slow. Passes wait for it no longer than for a file."""
    made = Virsh(t4)
    monkeypatch.setattr(t4, "run", made.run)
    monkeypatch.setattr(entries, "_MOMENT", 0.5)
    define(t4, "slow")
    define(t4, "quick")
    yield made
    made.let_go.set()


@pytest.fixture
def hands(t4: simulate.SimulatedRoot, tmp_path: Path) -> Hands:
    return Hands(t4, DesiredFile(tmp_path), Desired())


def do(
    host: simulate.SimulatedRoot, hands: Hands, *wanted: WantedHandle, back: tuple[WantedHandle, ...] = ()
) -> dict[str, HandleResult]:
    work = Work(1, wanted, back)
    hands.keep({one.uuid for one in (*wanted, *back)})
    return {one.uuid: one for one in hands.perform(plan(work, observe(host, work, hands.memory.taken)))}


@pytest.fixture
def ended(hands: Hands) -> threading.Event:
    """Set when a guest is done with that no pass has waited for."""
    event = threading.Event()
    hands.entries.on_done = event.set
    return event


SLOW, QUICK = slice_for("slow", FIRST), slice_for("quick", SECOND)


def test_a_guest_that_does_not_answer_holds_up_no_other_guests_lease(
    t4: simulate.SimulatedRoot, hands: Hands, virsh: Virsh, ended: threading.Event
) -> None:
    done = do(t4, hands, SLOW, QUICK, WantedHandle(THIRD, M40, AttachType.TEST_PCI, {}))
    assert {uuid: one.outcome for uuid, one in done.items()} == {SECOND: Outcome.READY, THIRD: Outcome.READY}
    assert do(t4, hands, SLOW, QUICK).keys() == {SECOND}
    assert virsh.calls.count("attach-device slow") == 1

    virsh.refuses = False
    virsh.let_go.set()
    assert ended.wait(30)
    done = do(t4, hands, SLOW, QUICK)
    assert (done[FIRST].outcome, done[FIRST].entered) == (Outcome.READY, True)
    assert virsh.calls.count("attach-device slow") == 1


def test_a_guest_that_refuses_at_last_leaves_nothing_prepared_and_is_asked_again_later(
    t4: simulate.SimulatedRoot, hands: Hands, virsh: Virsh, ended: threading.Event
) -> None:
    assert do(t4, hands, SLOW) == {}
    assert [one.uuid for one in mdev.devices(t4)] == [FIRST]
    virsh.let_go.set()
    assert ended.wait(30)
    refused = do(t4, hands, SLOW)[FIRST]
    assert (refused.outcome, refused.code) == (Outcome.FAILED, "libvirt-refused")
    assert mdev.devices(t4) == []
    virsh.refuses = False
    assert do(t4, hands, SLOW)[FIRST].outcome is Outcome.READY


def test_a_lease_that_is_released_while_its_guest_is_asked_leaves_it_when_that_has_answered(
    t4: simulate.SimulatedRoot, hands: Hands, virsh: Virsh, ended: threading.Event
) -> None:
    assert do(t4, hands, SLOW) == {}
    assert do(t4, hands, back=(SLOW,)) == {}
    virsh.refuses = False
    virsh.let_go.set()
    assert ended.wait(30)
    assert do(t4, hands, back=(SLOW,))[FIRST].outcome is Outcome.ABSENT
    assert virsh.calls == ["attach-device slow", "detach-device slow"]
    assert mdev.devices(t4) == []


@pytest.mark.parametrize("refuses", [False, True])
@pytest.mark.parametrize(("name", "code"), [("quick", None), ("absent", "guest-not-found")])
def test_a_unit_that_is_lent_anew_hears_nothing_of_the_guest_that_answered_too_late(
    t4: simulate.SimulatedRoot,
    hands: Hands,
    virsh: Virsh,
    ended: threading.Event,
    refuses: bool,
    name: str,
    code: str | None,
) -> None:
    """It was told ready and in its guest, or failed, by what had come of the lease before, and was in none."""
    virsh.refuses = refuses
    assert do(t4, hands, SLOW) == {}
    virsh.let_go.set()
    assert ended.wait(30)
    assert do(t4, hands, back=(SLOW,))[FIRST].outcome is Outcome.ABSENT
    anew = slice_for(name, FIRST)
    assert anew.guest is not None
    anew = msgspec.structs.replace(anew, guest=msgspec.structs.replace(anew.guest, lease=SECOND))
    done = do(t4, hands, anew)[FIRST]
    assert (done.entered, done.code) == (code is None, code)
    assert (f"attach-device {name}" in virsh.calls) == done.entered
    assert bool(mdev.devices(t4)) == done.entered, "what could not enter is not left prepared"


def test_a_card_that_cannot_enter_its_next_guest_goes_one_way_back_only(
    t4: simulate.SimulatedRoot, hands: Hands, virsh: Virsh, ended: threading.Event
) -> None:
    """What had been prepared for the lease before was undone once more: on a card that an operator had given to vfio-pci meanwhile, the
    way back to its driver."""
    info = {"domain": "0000", "bus": "86", "device": "00", "function": "0"}
    card = WantedHandle(FIRST, M40, AttachType.PCI, info, Guest("libvirt", "slow", LEASE))
    drivers = [str(Path(t4.path, f"sys/bus/pci/devices/{M40}/driver").resolve())]
    assert do(t4, hands, card) == {}
    virsh.let_go.set()
    assert ended.wait(30)
    assert do(t4, hands, back=(card,))[FIRST].outcome is Outcome.ABSENT
    assert not hands._ways_back
    done = do(t4, hands, msgspec.structs.replace(card, guest=Guest("libvirt", "absent", SECOND)))[FIRST]
    assert (done.outcome, done.code) == (Outcome.FAILED, "guest-not-found")
    drivers.append(str(Path(t4.path, f"sys/bus/pci/devices/{M40}/driver").resolve()))
    assert drivers[0] == drivers[1]
    assert hands.memory.taken == {}


def test_a_unit_on_its_way_into_a_running_guest_is_not_taken_for_somebody_elses(
    t4: simulate.SimulatedRoot,
    hands: Hands,
    virsh: Virsh,
    ended: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own guest opens it before libvirt answers."""
    work = Work(1, (SLOW,))

    def settle() -> list[HandleResult]:
        return hands.perform(plan(work, observe(t4, work, hands.memory.taken, handed=frozenset())))

    assert settle() == []
    monkeypatch.setattr(mdev, "check_free", lambda *_: pytest.fail("it is looked whether somebody holds it"))
    assert settle() == []
    virsh.refuses = False
    virsh.let_go.set()
    assert ended.wait(30)
    assert [(one.outcome, one.entered) for one in settle()] == [(Outcome.READY, True)]


def test_a_container_that_is_being_stopped_is_given_nothing_until_it_is(
    t4: simulate.SimulatedRoot, ended: threading.Event, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops, done = threading.Event(), []

    def step(_root: Root, one: Step, _undo: Undo) -> None:
        if entering.STOP in one.args:
            assert stops.wait(30)
        done.append(one.name)

    monkeypatch.setattr(entering, "EXECUTORS", dict.fromkeys((entering.ENTER, entering.LEAVE), step))
    monkeypatch.setattr(entries, "_MOMENT", 0.05)
    guest = {"kind": "lxc", "name": "c1", "lease": LEASE}
    leave = entries.Job(FIRST, Step(entering.LEAVE, FIRST, {**guest, entering.STOP: "yes"}, False, True, "leave"))
    enter = entries.Job(SECOND, Step(entering.ENTER, SECOND, guest, True, False, "enter"))
    assert hands.entries.run([leave]) == {}
    assert hands.entries.run([enter]) == {}
    stops.set()
    assert ended.wait(30)
    assert hands.entries.run([leave, enter]).keys() == {FIRST, SECOND}
    assert done == [entering.LEAVE, entering.ENTER]


def test_no_more_guests_are_worked_on_at_once_than_there_may_be(
    t4: simulate.SimulatedRoot, hands: Hands, virsh: Virsh, ended: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "AT_ONCE", 1)
    virsh.refuses = False
    assert do(t4, hands, SLOW, QUICK) == {}
    virsh.let_go.set()
    assert ended.wait(30)
    assert {one.outcome for one in do(t4, hands, SLOW, QUICK).values()} == {Outcome.READY}


def test_a_fault_of_ours_fails_the_unit_and_not_the_agent(
    t4: simulate.SimulatedRoot, hands: Hands, virsh: Virsh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virsh, "calls", None)
    failed = do(t4, hands, QUICK)[SECOND]
    assert (failed.outcome, failed.code) == (Outcome.FAILED, "agent-failed")
    assert "its log has more" in str(failed.message)
