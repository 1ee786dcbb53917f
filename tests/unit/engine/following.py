"""A host that follows intents as its agent does: it brings a card to what is wished and reports it so, or says why it cannot."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from tests.unit.engine.cloud import Host, t4, whole

from cantle.engine.work import current_work
from cantle.model.device import Mode
from cantle.store.database import Database
from cantle.wire.intent import PlanReport, StepReport
from cantle.wire.inventory import DeviceReport

ADDRESS = "0000:af:00.0"
TYPES = {ADDRESS: {"nvidia-222": "GRID T4-1B", "nvidia-223": "GRID T4-2B"}}
UNBIND = StepReport("unbind-driver", ADDRESS, {"driver": "nvidia"}, True, True, f"take {ADDRESS} from nvidia")
BIND = StepReport("bind-driver", ADDRESS, {"driver": "vfio-pci"}, True, False, f"give {ADDRESS} to vfio-pci")
PLANS = {
    "passthrough": PlanReport((UNBIND, BIND), ("0000:af:00.1 goes with it",)),
    "mdev": PlanReport(),
}


def cut(**changes: object) -> DeviceReport:
    """A T4 that is cut into two vGPUs and could be lent whole."""
    card = t4(2)
    says = {"capabilities": ("passthrough", "mdev"), "mdev_types": TYPES, "plans": PLANS}
    return msgspec.structs.replace(card, **{**says, **changes})


def uncut(card: DeviceReport) -> DeviceReport:
    """The same card as one unit."""
    offered = whole(address=card.address).deployables
    return msgspec.structs.replace(card, mode=Mode.PASSTHROUGH, deployables=offered)


@dataclass
class Follower:
    """The host ``compute-1`` with one T4.

    ``failing``: it cannot follow, with that code.
    """

    db: Database
    name: str = "compute-1"
    failing: str | None = None
    agent: Host = field(init=False)

    def __post_init__(self) -> None:
        self.agent = Host(self.db, self.name)
        self.agent.report(cut())

    def follow(self) -> None:
        """Ask what is wanted, do it, report."""
        (wish,) = current_work(self.db, self.name).intents
        if self.failing is not None:
            (before,) = self.agent.devices
            said = {"intent_tried": wish.version, "intent_code": self.failing, "intent_error": "pid 7 (Xorg) holds it"}
            self.agent.report(msgspec.structs.replace(before, **said))
            return
        card = cut(intent_version=wish.version, intent_tried=wish.version)
        self.agent.report(uncut(card) if wish.mode is Mode.PASSTHROUGH else card)
