"""Publishing while the database is away."""

from __future__ import annotations

import threading

import pytest
from sqlalchemy import Connection

from cantle.errors import Unavailable
from cantle.keeper import placement
from cantle.keeper.placement import Publisher
from cantle.keeper.placement_host import Settings
from cantle.placement.client import PlacementClient
from cantle.store import publication
from cantle.store.database import Database


def test_a_database_that_is_away_is_told_once_by_who_publishes_and_once_when_it_is_back(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stop, back = threading.Event(), threading.Event()
    real, failures = publication.surveyed, iter([Unavailable("database-away", "The database is away.")] * 3)

    def surveyed(connection: Connection) -> object:
        for error in failures:
            raise error
        if back.is_set():
            stop.set()
        back.set()
        return real(connection)

    monkeypatch.setattr(publication, "surveyed", surveyed)
    monkeypatch.setattr(placement, "AWAY_S", 0.001)
    monkeypatch.setattr(placement, "EVERY_S", 0.001)
    nobody_asks = PlacementClient(None)  # there are no hosts
    publisher = threading.Thread(target=Publisher(sqlite, nobody_asks, Settings(), stop=stop).run)
    publisher.start()
    publisher.join(20)
    assert not publisher.is_alive()
    assert [record.getMessage() for record in caplog.records if record.name == "cantle.keeper.placement"] == [
        "placement: database-away: The database is away.",
        "placement: the database answers again",
    ]
