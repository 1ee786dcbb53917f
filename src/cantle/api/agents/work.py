"""``GET /v1/hosts/{host}/work``: a host's whole desired state, at once or as soon as it changes."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cantle.api.call import Call
from cantle.api.parking import retry_after
from cantle.engine import work as engine
from cantle.errors import Unavailable
from cantle.wire.work import Work


class WorkQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``generation``: of the work the agent has; ``wait``: seconds to wait for a later one."""

    generation: Annotated[int, msgspec.Meta(ge=0)] | None = None
    wait: Annotated[float, msgspec.Meta(ge=0)] = 0


def show(call: Call) -> Work:
    """The work; waits only if the agent has the current generation. A host waits once: its newest call ends the earlier one, whose
    connection the agent may have given up without the server noticing.

    :raises Unavailable: ``no-waiting-place``, with a ``Retry-After``.
    """
    asked: WorkQuery = call.query
    host = call.params["host"]
    if asked.generation is None or not asked.wait:
        return engine.current_work(call.db, host)
    with call.site.parking.place(host) as free:
        if not free:
            raise Unavailable(
                "no-waiting-place",
                "All places for waiting requests are taken. Ask again later, or give the agents' listener more threads and places.",
                retry_after=retry_after(),
            )
        seconds = min(asked.wait, call.site.settings.longest_wait)
        return engine.wait_work(call.db, host, asked.generation, seconds)
