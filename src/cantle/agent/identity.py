"""Which machine speaks, and which life of its agent."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata

import msgspec

from cantle.kernel import machine
from cantle.kernel.root import Root
from cantle.wire.inventory import Condition, InventoryReport

#: What the machine's id is hashed with: machine-id(5) asks to keep it to oneself, and to use one hash for each application.
_APPLICATION = b"cantle agent"


@dataclass(frozen=True, slots=True)
class Identity:
    """What a report says of who sends it. Fields as in :class:`cantle.wire.inventory.InventoryReport`.

    :param wall: the host's time in seconds since 1970. It decides nothing: it is told, so that a person hears of a clock that is wrong.
    """

    machine: str
    boot: str
    version: str
    wall: Callable[[], float] = time.time

    @classmethod
    def of(cls, root: Root, wall: Callable[[], float] = time.time) -> Identity:
        """That of this host. What cannot be read is ""."""
        own = machine.machine_id(root)
        hashed = hmac.new(own.encode(), _APPLICATION, hashlib.sha256).hexdigest()[:32] if own else ""
        return cls(hashed, machine.boot_id(root), metadata.version("cantle"), wall)

    def sign(
        self, report: InventoryReport, *, starts: int, generation: int, conditions: Sequence[Condition]
    ) -> InventoryReport:
        """A report with who sends it and what a person should know. Its digest is that of before if there is nothing to know."""
        digest = report.digest
        if conditions:
            digest = hashlib.sha256(digest.encode() + msgspec.json.encode(conditions)).hexdigest()
        return msgspec.structs.replace(
            report,
            digest=digest,
            conditions=tuple(conditions),
            machine=self.machine,
            boot=self.boot,
            starts=starts,
            generation=generation,
            clock=self.wall(),
            version=self.version,
        )
