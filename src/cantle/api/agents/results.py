"""``POST /v1/hosts/{host}/results``: what became of the units a host was asked for."""

from __future__ import annotations

from cantle.api.agents.inventory import check_protocol, hostname
from cantle.api.call import Call
from cantle.engine import results as engine
from cantle.wire.work import Results


def accept(call: Call) -> None:
    """Store the results."""
    results: Results = call.body
    check_protocol(results.protocol)
    engine.accept_results(call.db, hostname(call), results)
