"""Agents that their server does not take: who has nothing to show ends, whose token is refused goes on and says so."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.agent.service import TOKEN, Run, Service, until

from cantle import simulate
from cantle.agent.away import Away
from cantle.api.app import agents_app
from cantle.api.settings import Settings
from cantle.errors import BadConfig


class _Guarded:
    """The agents' listener with another secret, or in its place something that wants a password and says so in a page. It counts."""

    def __init__(self, service: Service, *, page: bool = False) -> None:
        self._application = agents_app(service.db, Settings(agents_token="another"))
        self._page = page
        self.calls = 0
        service.down()
        service.up(self)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.calls += 1
        if self._page:
            start_response("401 Unauthorized", [("Content-Type", "text/html"), ("Content-Length", "0")])
            return [b""]
        answer: Iterable[bytes] = self._application(environ, start_response)
        return answer


@pytest.mark.parametrize("page", [False, True])
def test_an_agent_without_a_token_ends_when_the_server_wants_one(
    service: Service, t4: simulate.SimulatedRoot, tmp_path: Path, page: bool
) -> None:
    """It went on for ever."""
    _Guarded(service, page=page)
    error = Run(service, t4, tmp_path / "agent", token=None).ended()
    assert isinstance(error, BadConfig)
    assert error.code == "agent-token-missing"
    assert "cantle agent join" in error.message
    assert "--token-file" in error.message


def test_a_token_that_is_refused_is_tried_again_and_told_once_for_each_longer_pause(
    service: Service,
    t4: simulate.SimulatedRoot,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be put right on the server. At the longest pause the same line came every minute, for ever."""
    caplog.set_level(logging.WARNING, logger="cantle.agent.agent")
    server = _Guarded(service)
    monkeypatch.setattr("cantle.agent.agent.Away", lambda clock, _longest: Away(clock, 0.04, first=0.01))
    run = Run(service, t4, tmp_path / "agent", token=TOKEN)
    try:
        until(lambda: server.calls >= 12)
        told = [
            record.getMessage() for record in caplog.records if "(token-not-valid); next try" in record.getMessage()
        ]
        assert len(told) == 3
        assert "every 0.04 s at most" in told[-1]
        service.down()
        service.up()
        until(lambda: any("token-not-valid is over" in record.getMessage() for record in caplog.records))
    finally:
        run.end()
    assert run.error is None
