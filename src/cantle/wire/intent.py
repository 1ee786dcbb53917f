"""Intents on the wire: what the server wants a device to be (part of `Work`), and what its host would do for each mode (part of the
inventory report)."""

from __future__ import annotations

from typing import Self

import msgspec

from cantle.errors import CantleError
from cantle.model.device import Mode
from cantle.model.intent import Intent
from cantle.model.step import Plan, Step


class DeviceIntent(msgspec.Struct, frozen=True):
    """The wish for one device, as in `cantle.model.intent.Intent`.

    ``mode`` None: the wish was cleared, and what the host's own configuration says holds again. That too has a version, and is
    applied and reported like any other wish: so the server knows when the host has followed. A device that is in no ``DeviceIntent``
    never had a wish; its version is 0.
    """

    device: str
    version: int
    mode: Mode | None = None
    types: dict[str, str] = {}
    hardware: str = ""

    @classmethod
    def of(cls, device: str, version: int, intent: Intent | None) -> Self:
        """The wish with that version; None for a cleared one."""
        if intent is None:
            return cls(device, version)
        return cls(device, version, intent.mode, dict(intent.types), intent.hardware)

    def intent(self) -> Intent | None:
        """As the model's value; None for a cleared one.

        :raises BadRequest: ``bad-intent``.
        """
        if self.mode is None:
            return None
        return Intent(self.device, self.mode, self.types, self.hardware, self.version)


class StepReport(msgspec.Struct, frozen=True):
    """One change of a plan; the words are those of `cantle.model.step.Step`."""

    name: str
    target: str
    args: dict[str, str]
    reversible: bool
    disruptive: bool
    sentence: str


class PlanReport(msgspec.Struct, frozen=True):
    """What the host would do now to bring a device to one mode, or why it would refuse (``code`` and ``message``).

    No steps and no code: the device is in that mode already. Who holds the device is not in it: that is looked at when it is done.
    """

    steps: tuple[StepReport, ...] = ()
    warnings: tuple[str, ...] = ()
    code: str | None = None
    message: str | None = None

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """A plan that can be carried out."""
        return cls(tuple(_step(step) for step in plan.steps), plan.warnings)

    @classmethod
    def refused(cls, error: CantleError) -> Self:
        """A mode the host would refuse, and why."""
        return cls(code=error.code, message=error.message)


def _step(step: Step) -> StepReport:
    return StepReport(step.name, step.target, dict(step.args), step.reversible, step.disruptive, step.sentence)
