"""What would happen to a device if it were brought to another mode. Looks only: nothing is written here or on the host."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from cantle.engine import mode_check
from cantle.engine.device import device_at
from cantle.errors import CantleError, Conflict
from cantle.model.device import Device, Mode
from cantle.model.intent import Intent
from cantle.model.step import Plan, Step
from cantle.store import device as devices
from cantle.store.database import Database
from cantle.wire.intent import PlanReport, StepReport


@dataclass(frozen=True, slots=True)
class ModePlan:
    """A plan for a device and a wish for it.

    :param refusal: why it would not be carried out now, by us or by its host; the steps are then those of when that is mended, if
        they are known.
    """

    device: Device
    intent: Intent
    plan: Plan
    refusal: CantleError | None = None


def plan_intent(db: Database, hostname: str, intent: Intent) -> ModePlan:
    """What its host said it would do to bring ``intent.device`` to the mode of ``intent``. Who uses the device outside of Cantle is not
    in it: the host looks at that when it does it.

    :raises NotFound: ``host-not-found``, ``device-not-found``.
    :raises Conflict: ``plan-unknown``.
    """
    with db.read() as connection:
        device = device_at(connection, hostname, intent.device)
        refusal: CantleError | None = mode_check.impossible(device, intent)
        refusal = refusal or mode_check.in_use(connection, device)
        reported = _reported(devices.plans(connection, device.id)).get(intent.mode)
    if reported is None:
        if refusal is None:
            raise _unknown(device, intent)
        return ModePlan(device, intent, Plan(), refusal)
    if refusal is None and reported.code is not None:
        refusal = Conflict(reported.code, reported.message or reported.code)
    warnings = (*reported.warnings, *_unsaid(device, intent))
    return ModePlan(device, intent, Plan(tuple(map(_step, reported.steps)), warnings), refusal)


def _reported(text: str | None) -> dict[str, PlanReport]:
    """None where an agent of another version wrote what we cannot read."""
    try:
        return msgspec.json.decode(text, type=dict[str, PlanReport]) if text is not None else {}
    except msgspec.DecodeError:
        return {}


def _step(step: StepReport) -> Step:
    return Step(step.name, step.target, step.args, step.reversible, step.disruptive, step.sentence)


def _unsaid(device: Device, intent: Intent) -> list[str]:
    """What only its host can know: which type its configuration enables for a card that is not cut yet, if any."""
    if intent.mode is not Mode.MDEV or intent.types or device.mode is Mode.MDEV:
        return []
    return [
        "no type is named, so it is the one that the host's configuration enables; where it enables none, the change is refused: "
        f"name one of those in 'cantle device show {device.address}'"
    ]


def _unknown(device: Device, intent: Intent) -> Conflict:
    return Conflict(
        "plan-unknown",
        f"{device.hostname} has not said what it would do to bring {device.address} to {intent.mode}. Its agent reports "
        "plans with each inventory; look whether it runs, and in the same version as the server.",
        hostname=device.hostname,
    )
