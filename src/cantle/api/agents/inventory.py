"""``PUT /v1/hosts/{host}/inventory``: a host's full report."""

from __future__ import annotations

import threading

from cantle.api.call import Call
from cantle.engine import intake as engine
from cantle.wire.inventory import InventoryAnswer, InventoryReport

#: Reports that one process takes in at a time; the others wait their turn. When thousands of agents come back at once after a restart,
#: they would otherwise keep every processor and every connection of the database busy, and clients of the other API would wait too.
TURNS = threading.BoundedSemaphore(4)


def accept(call: Call) -> InventoryAnswer:
    """Store the report; answer the generation of the host's work."""
    report: InventoryReport = call.body
    with TURNS:
        return engine.accept_report(call.db, call.params["host"], report)
