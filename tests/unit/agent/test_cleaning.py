"""A card between two holders: reset by the best method it offers, read back, and kept from the next one where that fails."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from tests.unit.agent.lab import GEFORCE, INSTINCT, Lab, whole

from cantle import simulate
from cantle.agent.converge import observe, plan
from cantle.agent.desired import Desired
from cantle.agent.hands import Hands
from cantle.kernel import reset
from cantle.model.attach_handle import AttachType
from cantle.model.pci import PciAddress
from cantle.simulate.description import Description
from cantle.wire.work import Outcome, WantedHandle, Work

UUID = "11111111-2222-4333-8444-555555555555"
AUDIO = f"{GEFORCE[:-1]}1"
CARD = WantedHandle(UUID, GEFORCE, AttachType.PCI, {})


def described(resets: Sequence[str] = ("flr", "bus"), audio: Sequence[str] = ()) -> Description:
    """A host whose graphics card offers these resets."""
    found = simulate.load("mixed-lab")
    offered = {GEFORCE: tuple(resets), AUDIO: tuple(audio)}
    functions = tuple(
        msgspec.structs.replace(one, resets=offered.get(one.address, one.resets)) for one in found.functions
    )
    return msgspec.structs.replace(found, functions=functions)


@dataclass
class Lent:
    """A host of which a card is lent."""

    lab: Lab
    told: list[str] = field(default_factory=list)

    def back(self) -> tuple[Outcome, str | None, str]:
        """Take it back: outcome, code, and method of the cleaning or message."""
        self.lab.hands.on_cleaning = self.told.append
        [result] = self.lab.do(back=[CARD])
        said = result.cleaning.method if result.cleaning is not None else str(result.message)
        return result.outcome, result.code, said

    def resets(self) -> list[str]:
        """Functions that were reset, in order."""
        return [path.split("/")[-2] for path, _ in self.lab.root.written if path.endswith("/reset")]

    def driver(self) -> str | None:
        """What the card is bound to."""
        return self.lab.root.link_name(f"sys/bus/pci/devices/{GEFORCE}/driver")


def lent(place: Path, on: Description) -> Lent:
    lab = Lab(place, described=on)
    [result] = lab.do(CARD)
    assert result.outcome is Outcome.READY
    return Lent(lab)


def test_a_card_is_reset_by_the_first_method_it_offers_before_its_driver_gets_it_back(tmp_path: Path) -> None:
    case = lent(tmp_path, described())
    assert case.back() == (Outcome.ABSENT, None, "flr")
    assert case.resets() == [GEFORCE]
    assert case.told == [UUID], "nobody holds it: said before the reset, which may take a while"
    assert case.driver() == "nvidia"


def test_every_function_that_offers_it_is_reset_and_the_record_says_which_was_not(tmp_path: Path) -> None:
    case = lent(tmp_path, described(audio=("pm",)))
    [result] = case.lab.do(back=[CARD])
    assert case.resets() == [GEFORCE, AUDIO]
    assert result.cleaning is not None
    assert result.cleaning.done == f"{GEFORCE} was reset (flr) and read back; {AUDIO} was reset (pm) and read back"
    other = lent(tmp_path / "other", described())
    [result] = other.lab.do(back=[CARD])
    assert result.cleaning is not None
    assert f"{AUDIO} offers no reset, so nothing was done to it" in result.cleaning.done


def test_a_card_whose_reset_fails_stays_where_it_is_until_it_works(tmp_path: Path) -> None:
    case = lent(tmp_path, described())
    case.lab.root.fail(errno.ETIMEDOUT, "/reset")
    outcome, code, said = case.back()
    assert (outcome, code) == (Outcome.QUARANTINED, "reset-failed")
    assert GEFORCE in said
    assert case.driver() == "vfio-pci", "no driver gets a card that is not clean"
    assert case.back() == (Outcome.ABSENT, None, "flr")
    assert case.driver() == "nvidia"


def test_a_card_whose_methods_will_all_not_do_counts_as_one_that_offers_none(tmp_path: Path) -> None:
    """A bus that it shares with its audio function cannot be reset for one of them: the kernel lists the method and says ENOTTY."""
    case = lent(tmp_path, described(("bus",), audio=("bus",)))
    for nth in (1, 2):
        case.lab.root.fail(errno.ENOTTY, "/reset", nth=nth)
    [result] = case.lab.do(back=[CARD])
    assert (result.outcome, case.driver()) == (Outcome.ABSENT, "nvidia")
    assert result.cleaning is not None
    assert result.cleaning.method == "none"
    assert result.cleaning.done == "; ".join(
        f"{one} offers no reset, so nothing was done to it" for one in (GEFORCE, AUDIO)
    )


@pytest.mark.parametrize(
    ("head", "power", "says"),
    [
        (b"\xff" * 4, None, "nothing but ones"),
        (b"\xff" * 4, "D3cold", "nothing but ones"),
        (b"\xde\x10\x01\x00", None, "as 10de:0001"),
    ],
)
def test_a_card_that_does_not_answer_as_itself_after_its_reset_is_quarantined(
    tmp_path: Path, head: bytes, power: str | None, says: str
) -> None:
    """Also one that the kernel takes for asleep, as it does with one that does not answer when it is woken."""
    case = lent(tmp_path, described())
    device = next(Path(case.lab.root.path).glob(f"sys/devices/**/{GEFORCE}"))

    def die() -> None:
        device.joinpath("config").write_bytes(head + b"\0" * 60)
        if power is not None:
            state = device.joinpath("power_state")  # read-only, as the kernel's: only root could write over it
            state.unlink()
            state.write_text(f"{power}\n")

    case.lab.root.fail(die, "/reset", after=True)
    outcome, code, said = case.back()
    assert (outcome, code) == (Outcome.QUARANTINED, "reset-failed")
    assert f"{GEFORCE} was reset (flr) and now answers {says}, not as 10de:2684" in said


def test_a_card_that_died_is_not_taken_for_one_that_offers_no_reset(tmp_path: Path) -> None:
    """The kernel waits for it a minute and then says ENOTTY, as it does of a method that will not do."""
    case = lent(tmp_path, described(("bus",)))
    next(Path(case.lab.root.path).glob(f"sys/devices/**/{GEFORCE}")).joinpath("config").write_bytes(b"\xff" * 64)
    case.lab.root.fail(errno.ENOTTY, "/reset")
    outcome, code, said = case.back()
    assert (outcome, code) == (Outcome.QUARANTINED, "reset-failed")
    assert "could not be reset and now answers nothing but ones" in said


def test_a_card_that_offers_no_reset_is_lent_again_and_the_record_says_that_nothing_was_done(tmp_path: Path) -> None:
    case = lent(tmp_path, described(resets=()))
    assert case.back() == (Outcome.ABSENT, None, "none")
    assert case.resets() == []


def test_unless_a_reset_is_required(tmp_path: Path) -> None:
    case = lent(tmp_path, described(resets=()))
    lab = case.lab
    lab.hands = Hands(lab.root, lab.file, lab.file.load(), require_reset=True)
    outcome, code, said = case.back()
    assert (outcome, code) == (Outcome.QUARANTINED, "reset-not-offered")
    assert "require_reset" in said
    assert case.driver() == "vfio-pci"


def test_a_card_that_somebody_still_has_open_is_not_reset_under_him(tmp_path: Path) -> None:
    case = lent(tmp_path, described())
    case.lab.root.hold(GEFORCE, pid=4711)
    outcome, code, said = case.back()
    assert (outcome, code) == (Outcome.FAILED, "device-held")
    assert "pid 4711 (qemu-system-x86)" in said
    assert (case.resets(), case.told) == ([], [])
    case.lab.root.let_go(4711)
    assert case.back() == (Outcome.ABSENT, None, "flr")


def test_a_card_that_stays_on_vfio_pci_is_reset_between_two_leases_too(tmp_path: Path) -> None:
    lab = Lab(tmp_path, described=described())
    lab.apply(whole(GEFORCE))
    lab.do(CARD)
    case = Lent(lab)
    assert case.back() == (Outcome.ABSENT, None, "flr")
    assert (case.resets(), case.driver()) == ([GEFORCE], "vfio-pci")


def test_a_card_that_no_lease_is_known_of_goes_back_even_if_it_cannot_be_cleaned(tmp_path: Path) -> None:
    case = lent(tmp_path, described())
    lab = case.lab
    lab.root.fail(errno.EIO, "/reset")
    tasks = plan(Work(2), observe(lab.root, Work(2), lab.hands.memory.taken), leftovers=[CARD])
    [result] = lab.hands.perform(tasks)
    assert result.outcome is Outcome.ABSENT
    assert case.driver() == "nvidia"


def test_an_older_kernel_names_no_method_and_resets_all_the_same(tmp_path: Path) -> None:
    case = lent(tmp_path, described())
    next(Path(case.lab.root.path).glob(f"sys/devices/**/{GEFORCE}/reset_method")).unlink()
    assert case.back() == (Outcome.ABSENT, None, "kernel")


def test_looking_at_methods_changes_nothing(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert reset.methods(lab.root, PciAddress.parse(INSTINCT)) == ("flr", "bus")
    assert lab.root.written == []
    assert lab.hands.memory == Desired()
