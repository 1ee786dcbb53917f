"""``PUT /v1/hosts/{host}/inventory``: a host's full report."""

from __future__ import annotations

from cantle.api.call import Call
from cantle.engine import intake as engine
from cantle.wire.inventory import InventoryAnswer, InventoryReport


def accept(call: Call) -> InventoryAnswer:
    """Store the report; answer the generation of the host's work."""
    report: InventoryReport = call.body
    return engine.accept_report(call.db, call.params["host"], report)
