"""The agent is killed whenever it is about to touch its own memory on the disk, and at each write to the kernel: from taking up what is
wanted to having told the server. Its next life ends where one that was never killed does, whichever way the wishes go on."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
from tests.unit.agent.lab import FLEX, GEFORCE, INTEGRATED
from tests.unit.agent.life import ABSENT, FIRST, READY, SECOND, THIRD, Life
from tests.unit.agent.service import T4
from tests.unit.agent.test_end_to_end import kernel_files

from cantle import simulate
from cantle.model.attach_handle import AttachType
from cantle.model.device import Mode
from cantle.wire.intent import DeviceIntent
from cantle.wire.work import WantedHandle

#: One unit of each kind: a slice of a card, of integrated graphics and of what is no PCI function; a card with its audio; one kept on
#: vfio-pci by an intent.
UNITS = {
    "T4": ("mixed-lab", WantedHandle(FIRST, T4, AttachType.MDEV, {"asked_type": "nvidia-223"}), None),
    "GVT-g": ("mixed-lab", WantedHandle(SECOND, INTEGRATED, AttachType.MDEV, {"asked_type": "i915-GVTg_V5_8"}), None),
    "mtty": ("mtty", WantedHandle(FIRST, "mtty", AttachType.MDEV, {"asked_type": "mtty-2"}), None),
    "GeForce": ("mixed-lab", WantedHandle(THIRD, GEFORCE, AttachType.PCI, {}), None),
    "Flex, wanted whole": (
        "mixed-lab",
        WantedHandle(THIRD, FLEX, AttachType.PCI, {}),
        DeviceIntent(FLEX, 1, Mode.PASSTHROUGH),
    ),
}
_FATAL = {"open", "os.rename", "os.remove"}


def killed(life: Life, nth: int, change: Callable[[], object]) -> bool:
    """Do something in another process, which is killed the nth time that it is about to open, move or write a file of the agent's memory or
    to write a file of the kernel's; whether it got that far."""
    child = os.fork()
    if child == 0:
        left = nth
        own = os.fspath(life.directory)

        def step() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            if event in _FATAL and str(arguments[0]).startswith(own):
                step()

        sys.addaudithook(hook)
        for number in range(1, 20):
            life.root.fail(step, nth=number, after=True)
        change()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def begun(tmp_path: Path, host: str, intents: Sequence[DeviceIntent]) -> Life:
    life = Life(simulate.build(simulate.load(host), tmp_path / "host"), tmp_path / "agent")
    life.follow(1, intents=intents)
    return life


@pytest.mark.parametrize(("host", "unit", "intent"), UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("kept", [True, False], ids=["still wanted", "not wanted any more"])
@pytest.mark.parametrize("lending", [True, False], ids=["prepare", "release"])
def test_killed_at_any_step_of_a_prepare_or_release(
    tmp_path: Path, host: str, unit: WantedHandle, intent: DeviceIntent | None, kept: bool, lending: bool
) -> None:
    intents = [intent] if intent is not None else []
    life = begun(tmp_path, host, intents)
    start = kernel_files(life.root)
    generation = 2
    nth, died = 1, True
    while died:
        if not lending:
            assert life.follow(generation, unit, intents=intents)[unit.uuid].outcome is READY
            generation += 1
        wanted, back = ([unit], []) if lending else ([], [unit])
        died = killed(life, nth, partial(life.follow, generation, *wanted, back=back, intents=intents))
        life = life.next()
        if kept is not lending:  # the wish has changed meanwhile
            generation += 1
            wanted, back = back, wanted
        done = life.follow(generation, *wanted, back=back, intents=intents)
        assert done[unit.uuid].outcome is (READY if wanted else ABSENT)
        assert done[unit.uuid].code is None
        if wanted:
            assert life.follow(generation + 1, back=[unit], intents=intents)[unit.uuid].outcome is ABSENT
        assert kernel_files(life.root) == start
        life.follow(generation + 2, intents=intents)
        assert life.upkeep.memory.leftovers == ()
        generation += 3
        nth += 1
    assert nth > 5
