"""A keeper that is killed between claiming an event and ending it: ``python -m tests.unit.keeper.doomed URL CLAIM-SECONDS WHEN``.

``before``: it dies before the receiver hears anything; ``after``: when the receiver has the event and the outbox does not know yet.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence

from cantle.keeper.courier import Courier
from cantle.model.event import Channel, Event, Verdict
from cantle.store.database import Database


class Doomed:
    """Takes one event, prints what it would have sent or sent, and is killed."""

    channel = Channel.NOVA
    batch = 1
    patience_s = 1e9

    def __init__(self, when: str) -> None:
        self._when = when

    def send(self, events: Sequence[Event]) -> list[Verdict]:
        """Ends the process as SIGKILL does: nothing is tidied up."""
        if self._when == "after":
            sys.stdout.write(events[0].body + "\n")
            sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


if __name__ == "__main__":
    database = Database.open(sys.argv[1])
    Courier(database, Doomed(sys.argv[3]), stop=threading.Event(), claim_s=float(sys.argv[2])).round()
