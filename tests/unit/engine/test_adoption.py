"""What is taken over from a Cyborg, on each kind of database; the command is in ``tests/unit/placement``."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import select
from tests.databases import KINDS, database
from tests.unit.engine.cloud import NOVA_FOR_ALICE, Host, t4

from cantle.engine import adoption
from cantle.engine.adoption import Former, TakenRequest
from cantle.engine.arq import list_arqs
from cantle.engine.audit import list_records
from cantle.engine.capacity import list_capacity
from cantle.engine.work import current_work
from cantle.store import host as hosts
from cantle.store.cyborg import Cyborg, CyborgProfile, CyborgRequest
from cantle.store.database import Database
from cantle.store.tables import deployables

MADE = dt.datetime(2026, 3, 1, 12, 0, tzinfo=dt.UTC)
INFO = {"domain": "0000", "bus": "af", "device": "00", "function": "0", "asked_type": "nvidia-223"}


def request(provider: str, mark: int, state: str = "Bound") -> CyborgRequest:
    """One for a vGPU with that number."""
    info = {**INFO, "vgpu_mark": f"nvidia-223_{mark}"}
    words = (str(uuid4()), state, "gold", 0, "alice-project", "compute-1", provider, str(uuid4()), str(uuid4()))
    return CyborgRequest(*words, attach_type="MDEV", attach_info=info, created_at=MADE)


def adopt(db: Database, cyborg: Cyborg, provider: str, deployable: int) -> list[TakenRequest]:
    """Everything, for the only host."""
    consumers = [one.instance_uuid or "" for one in cyborg.requests]
    with db.write() as connection:
        found = hosts.find(connection, "compute-1", lock=True)
        assert found is not None
        hosts.lock(connection, [found.id])
        formers = {provider: Former(deployable, consumers)}
        profiles = adoption.profiles(connection, cyborg)
        requests = adoption.requests(connection, found.id, "compute-1", cyborg, formers)
        return adoption.take(connection, found.id, "compute-1", profiles, requests)


@pytest.mark.parametrize("kind", KINDS)
def test_requests_go_on_on_units_that_are_named_and_on_such_that_are_not(kind: str, tmp_path: Path) -> None:
    with database(kind, tmp_path) as db:
        Host(db).report(t4(2))
        (offer,) = list_capacity(db)
        cyborg = Cyborg(
            profiles=(CyborgProfile(str(uuid4()), "gold", [{"resources:VGPU": "1"}], None),),
            requests=tuple(request(offer.rp_uuid, number) for number in (1, 3)),
        )
        taken = adopt(db, cyborg, offer.rp_uuid, _deployable(db))
        assert [one.why_not for one in taken] == [None, None]
        for one in cyborg.requests:
            (arq,) = list_arqs(db, NOVA_FOR_ALICE, instance=one.instance_uuid)
            assert (arq.uuid, arq.created_at, arq.attach_handle_uuid) == (one.uuid, MADE, one.handle_uuid)
            assert arq.attach_handle_info == one.attach_info
        assert {one.uuid for one in current_work(db, "compute-1").wanted} == {
            one.handle_uuid for one in cyborg.requests
        }
        lent = list_records(db, action="unit.lent")
        assert [(one.user_id, one.arq_uuid) for one in lent] == [("cyborg", one.uuid) for one in cyborg.requests]
        assert adopt(db, cyborg, offer.rp_uuid, _deployable(db)) == []


@pytest.mark.parametrize("state", ["Initial", "BindStarted", "BindFailed", "Unbound", "Deleting"])
def test_what_is_not_bound_is_not_taken_over_whatever_it_holds(state: str, tmp_path: Path) -> None:
    with database("sqlite", tmp_path) as db:
        Host(db).report(t4(2))
        (offer,) = list_capacity(db)
        profile = CyborgProfile(str(uuid4()), "gold", [{"resources:VGPU": "1"}], None)
        cyborg = Cyborg(profiles=(profile,), requests=(request(offer.rp_uuid, 0, state),))
        (taken,) = adopt(db, cyborg, offer.rp_uuid, _deployable(db))
        assert taken.why_not == f"it is {state}, and only what is bound is taken over"
        assert current_work(db, "compute-1").wanted == ()


def _deployable(db: Database) -> int:
    with db.read() as connection:
        return int(connection.execute(select(deployables.c.id)).scalar_one())
