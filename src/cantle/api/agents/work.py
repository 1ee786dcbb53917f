"""``GET /v1/hosts/{host}/work``: a host's whole desired state, at once or as soon as it changes."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cantle.api.call import Call, Unchanged
from cantle.api.parking import retry_after, spread
from cantle.engine import work as engine
from cantle.errors import Unavailable
from cantle.wire.work import Work


class WorkQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``generation``: of the work the agent has; ``wait``: seconds to wait for a later one."""

    generation: Annotated[int, msgspec.Meta(ge=0)] | None = None
    wait: Annotated[float, msgspec.Meta(ge=0)] = 0


def show(call: Call) -> Work | Unchanged:
    """The work; waits only if the agent has the current generation. A host waits once: its newest call ends the earlier one, whose
    connection the agent may have given up without the server noticing.

    Whoever names the generation in ``If-None-Match`` too is answered without a body when it is still that one.

    :raises Unavailable: ``no-waiting-place``, ``server-stopping``, each with a ``Retry-After``.
    """
    asked: WorkQuery = call.query
    host = call.params["host"]
    if asked.generation is None or not asked.wait:
        return _whole(call, engine.current_work(call.db, host))
    with call.site.parking.place(host) as free:
        if not free:
            raise Unavailable(
                "no-waiting-place",
                "All places for waiting requests are taken. Ask again later, or give the agents' listener more threads and places.",
                retry_after=retry_after(),
            )
        seconds = min(asked.wait, call.site.settings.longest_wait)
        work = engine.await_work(call.db, host, asked.generation, seconds)
    if work is not None:
        return _whole(call, work)
    if call.db.wakeups.stopped:
        raise Unavailable(
            "server-stopping",
            "This process of the server goes down. Ask again in a moment, not all at once.",
            retry_after=spread(call.site.parking.most),
        )
    if call.precondition.none_match is not None and str(asked.generation) in call.precondition.none_match:
        return Unchanged()
    return _whole(call, engine.current_work(call.db, host))


def _whole(call: Call, work: Work) -> Work:
    call.headers["ETag"] = f'"{work.generation}"'
    return work
