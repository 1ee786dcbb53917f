"""Bringing each card to what operators want of it, before anything of it is published or lent; and saying how far that went.

Level-triggered as everything here: at each look the host is compared with the wishes, so it makes no difference whether a wish is new,
the host was rebooted, or somebody moved a card by hand. Each card is on its own: what fails for one holds up no other, leaves that card
as it was, and is tried again, less and less often.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import msgspec

from cantle.agent import mode
from cantle.agent.backoff import Backoff
from cantle.agent.hands import Hands
from cantle.errors import CantleError
from cantle.kernel import mdev
from cantle.kernel.root import Root
from cantle.model.device import Health, Mode
from cantle.model.enabled_types import EnabledTypes
from cantle.model.intent import Intent
from cantle.wire.intent import DeviceIntent
from cantle.wire.inventory import DeviceReport
from cantle.wire.work import WantedHandle, Work

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Standing:
    """How one device stands to the wishes for it.

    :param version: of the wish it is in accordance with; 0 for none.
    :param intent: that wish; None for what the configuration says.
    :param tried: the version tried last, and why that failed, if so.
    """

    version: int = 0
    intent: Intent | None = None
    tried: int = 0
    code: str | None = None
    message: str | None = None


class Intents:
    """The wishes for one host's devices, and how they were carried out.

    :param longest: seconds between two tries at most.
    """

    def __init__(
        self,
        root: Root,
        hands: Hands,
        enabled: EnabledTypes,
        clock: Callable[[], float],
        longest: float = 60.0,
    ) -> None:
        self._root = root
        self._hands = hands
        self._enabled = enabled
        self._clock = clock
        self._longest = longest
        self._standing: dict[str, Standing] = {}
        self._backoff: dict[str, Backoff] = {}
        self._retry_at: dict[str, float] = {}

    @property
    def in_force(self) -> Mapping[str, Intent]:
        """The wishes that were applied, by device."""
        return {device: one.intent for device, one in self._standing.items() if one.intent is not None}

    @property
    def standings(self) -> Mapping[str, Standing]:
        """How each device with a wish stands to it."""
        return dict(self._standing)

    @property
    def kept(self) -> frozenset[str]:
        """Cards that stay on vfio-pci while nobody borrows them."""
        return frozenset(device for device, intent in self.in_force.items() if intent.mode is Mode.PASSTHROUGH)

    @property
    def unready(self) -> Mapping[str, tuple[str, str]]:
        """Devices that could not be brought to what is wanted of them: code and message, by device."""
        return {
            device: (one.code, one.message or one.code)
            for device, one in self._standing.items()
            if one.code is not None
        }

    @property
    def retry_at(self) -> float | None:
        """When the next failed one is due again, by the clock; None when all is well."""
        return min(self._retry_at.values(), default=None)

    def apply(self, work: Work) -> None:
        """Bring every device of the host to what is wanted of it, each on its own. Those that are not there are left for when they come."""
        lent: dict[str, list[WantedHandle]] = {}
        for handle in (*work.wanted, *work.unwanted):
            lent.setdefault(handle.device, []).append(handle)
        for device in self._standing.keys() - {wish.device for wish in work.intents}:
            self._forget(device)
        for wish in work.intents:
            try:
                self._bring(wish, lent.get(wish.device, []))
            except CantleError as error:
                self._failed(wish, error)

    def told(self, device: DeviceReport) -> DeviceReport:
        """A device's report with how it stands to its wish. One that could not follow offers nothing."""
        standing = self._standing.get(device.address, Standing())
        told = msgspec.structs.replace(
            device,
            intent_version=standing.version,
            intent_tried=standing.tried,
            intent_code=standing.code,
            intent_error=standing.message,
            plans=mode.plans(self._root, device, self._hands.memory.taken),
        )
        if standing.code is None:
            return told
        reason = f"intent {standing.tried} could not be applied: {standing.code}: {standing.message}"
        return msgspec.structs.replace(told, health=Health.DEGRADED, reason=reason, deployables=())

    def _bring(self, wish: DeviceIntent, lent: list[WantedHandle]) -> None:
        device = wish.device
        if not mode.is_there(self._root, device):
            self._forget(device)
            return
        standing = self._standing.get(device, Standing())
        if standing.tried != wish.version:
            self._retry_at.pop(device, None)
            self._backoff.pop(device, None)
        intent = wish.intent()
        steps = mode.steps(
            self._root,
            device,
            intent,
            configured=self._configured(device),
            taken=self._hands.memory.taken,
            lent=lent,
        )
        if steps:
            if self._clock() < self._retry_at.get(device, 0.0):
                return
            self._hands.change(steps)
            _log.info("%s is as intent %d says: %s", device, wish.version, "; ".join(one.sentence for one in steps))
        self._standing[device] = Standing(wish.version, intent, wish.version)
        self._retry_at.pop(device, None)
        self._backoff.pop(device, None)

    def _configured(self, device: str) -> str | None:
        named = self._enabled.named(device, *mdev.other_names(self._root, device)) or self._enabled.default
        return named.type_id if named is not None else None

    def _failed(self, wish: DeviceIntent, error: CantleError) -> None:
        """The device is as it was before, so what was in force still is, unless the way back failed too."""
        device = wish.device
        before = self._standing.get(device, Standing())
        if error.code == "undo-incomplete" or before.version == wish.version:
            before = Standing()
        news = (before.tried, before.code) != (wish.version, error.code)
        self._standing[device] = replace(before, tried=wish.version, code=error.code, message=error.message)
        now = self._clock()
        if now >= self._retry_at.get(device, 0.0):
            self._retry_at[device] = now + self._backoff.setdefault(device, Backoff(1.0, self._longest)).next()
        if news:
            _log.warning("%s cannot be brought to what intent %d says: %s", device, wish.version, error)

    def _forget(self, device: str) -> None:
        for kept in (self._standing, self._retry_at, self._backoff):
            kept.pop(device, None)
