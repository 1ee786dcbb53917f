"""What happens to guests is looked at, whatever else the agent is told at the same moment."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.agent.service import TOKEN, Service, running, until

from cantle import simulate
from cantle.agent.agent import Agent
from cantle.agent.upkeep import Upkeep
from cantle.api.app import agents_app
from cantle.api.settings import Settings
from cantle.model.lease import LeaseState
from cantle.store.host import lock_named


def test_a_guest_that_ends_just_as_new_work_comes_is_looked_at_all_the_same(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was forgotten until the next look at everything: a guest-stopped lease stayed lent for a minute."""
    looks: list[None] = []
    look = Upkeep.look_at_guests

    def counted(upkeep: Upkeep) -> None:
        looks.append(None)
        look(upkeep)

    monkeypatch.setattr(Upkeep, "look_at_guests", counted)
    monkeypatch.setattr(Agent, "_watch", lambda _agent: None)  # the kernel's own events would bring about a look soon
    application = agents_app(service.db, Settings(agents_token=TOKEN))
    said: list[str] = []
    agents: list[Agent] = []
    looks_before: list[int] = []

    def meanwhile(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """While the agent reports what its first unit has changed, a call that waits for nothing: a signal, and a new generation."""
        said.append(environ["REQUEST_METHOD"])
        if said[-1] == "PUT" and "POST" in said and not looks_before:
            with service.db.write() as connection:
                assert lock_named(connection, "node1")
            looks_before.append(len(looks))
            agents[0].settle_again()
        answer: Iterable[bytes] = application(environ, start_response)
        return answer

    service.down()
    service.up(meanwhile)
    with running(service, t4, tmp_path / "agent", rescan=3600.0) as run:
        agents.append(run.agent)
        assert service.borrow("slice").state is LeaseState.ACTIVE
        until(lambda: looks_before and len(looks) > looks_before[0], 5.0)
