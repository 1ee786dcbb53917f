"""``/v1/hosts/{host}/devices/{address}/plan``: what would be done to bring a device to a mode. Changes nothing."""

from __future__ import annotations

import msgspec

from cantle.api.call import Call
from cantle.engine import plan as engine
from cantle.model.intent import Intent
from cantle.model.step import Step


class PlanQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``mode``: the mode it shall be in. ``type``: with ``mdev``, the type that shall be made on it."""

    mode: str = ""
    type: str | None = None


class StepShape(msgspec.Struct, frozen=True):
    """One change; the words are those of :class:`cantle.model.step.Step`."""

    name: str
    target: str
    args: dict[str, str]
    reversible: bool
    disruptive: bool
    sentence: str


class Shape(msgspec.Struct, frozen=True):
    """A plan. ``code`` and ``message`` say why it would be refused now, and are null when it would not. No steps and no code: the device is
    in that mode already. ``disruptive``: one of the steps is."""

    hostname: str
    device: str
    current_mode: str
    mode: str
    types: dict[str, str]
    steps: list[StepShape]
    warnings: tuple[str, ...]
    disruptive: bool
    code: str | None
    message: str | None


def show(call: Call) -> Shape:
    """The plan for a device and a mode."""
    asked: PlanQuery = call.query
    address = call.params["address"]
    types = {} if asked.type is None else {address: asked.type}
    wish = Intent.from_json({"device": address, "mode": asked.mode, "types": types})
    found = engine.plan_intent(call.db, call.params["host"], wish)
    return Shape(
        hostname=found.device.hostname,
        device=found.device.address,
        current_mode=found.device.mode,
        mode=found.intent.mode,
        types=dict(found.intent.types),
        steps=[_step(step) for step in found.plan.steps],
        warnings=found.plan.warnings,
        disruptive=any(step.disruptive for step in found.plan.steps),
        code=None if found.refusal is None else found.refusal.code,
        message=None if found.refusal is None else found.refusal.message,
    )


def _step(step: Step) -> StepShape:
    return StepShape(step.name, step.target, dict(step.args), step.reversible, step.disruptive, step.sentence)
