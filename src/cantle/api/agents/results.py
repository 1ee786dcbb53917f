"""``POST /v1/hosts/{host}/results``: what became of the units a host was asked for."""

from __future__ import annotations

from cantle.api.call import Call
from cantle.engine import results as engine
from cantle.wire.work import Results


def accept(call: Call) -> None:
    """Store the results."""
    results: Results = call.body
    engine.accept_results(call.db, call.params["host"], results)
