"""Whoever asks again under the same key gets what he got the first time, and no second one, on every database and in every crowd."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update
from tests.databases import KINDS, database, server_url
from tests.unit.engine.cloud import ALICE, BOB, Host, make_profile, t4
from tests.unit.engine.test_parting_races import just_before

from cantle.engine.idempotency import AlreadyAnswered, Once
from cantle.engine.lease import create_lease, list_leases
from cantle.errors import BadRequest, NoCapacity, Unprocessable
from cantle.keeper import housekeeping
from cantle.keeper.housekeeping import Ages
from cantle.model.idempotency import IdempotencyKey
from cantle.model.identity import Identity
from cantle.model.lease import Lease
from cantle.store.database import Database
from cantle.store.idempotency_table import idempotency_keys
from cantle.store.types import database_now

RACERS = 12


def ask(db: Database, *, key: str = "k", who: Identity = ALICE, workload: str = "vm1", profile: str = "vgpu") -> str:
    """Ask for a lease under a key; its uuid, new or as it was told before."""
    body = json.dumps([profile, workload]).encode()
    once: Once[Lease] = Once(IdempotencyKey.of(key, who, "POST", "/v1/leases", body), lambda lease: lease.uuid)
    try:
        return create_lease(db, who, profile_name=profile, workload=workload, once=once).uuid
    except AlreadyAnswered as earlier:
        return earlier.answer


def fill(db: Database, units: int) -> None:
    """A host with so many units, and a profile of one."""
    Host(db).report(t4(units))
    make_profile(db)


@pytest.fixture(params=KINDS)
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Database]]:
    """Two servers on one database, or one on SQLite."""
    with database(request.param, tmp_path) as first:
        second = first if request.param == "sqlite" else Database.open(server_url(request.param))
        yield [first, second]
        if second is not first:
            second.close()


def test_a_crowd_that_asks_under_one_key_gets_one_lease(servers: list[Database]) -> None:
    fill(servers[0], units=RACERS)
    with ThreadPoolExecutor(RACERS) as pool:
        told = list(pool.map(lambda number: ask(servers[number % 2]), range(RACERS)))
    (lease,) = list_leases(servers[0], ALICE)
    assert set(told) == {lease.uuid}


def test_nobody_is_refused_for_the_unit_that_his_own_first_try_has_just_taken(tmp_path: Path) -> None:
    """His answer was late, so he asked again: it was true that no unit was left, but the last one was his."""
    first: list[str] = []
    with database("postgresql", tmp_path) as here, closing(Database.open(server_url("postgresql"))) as there:
        fill(here, units=1)
        with just_before(here, "SELECT device_profiles", lambda: first.append(ask(there))):
            assert ask(here) == first[0]


def test_a_lease_that_could_not_be_had_is_tried_again_under_its_key(sqlite: Database) -> None:
    fill(sqlite, units=1)
    other = ask(sqlite, key="other")
    with pytest.raises(NoCapacity):
        ask(sqlite)
    Host(sqlite, "h2").report(t4(1, host="h2"))
    assert ask(sqlite) != other
    assert len(list_leases(sqlite, ALICE)) == 2


def test_another_request_under_the_key_is_refused_and_does_nothing(sqlite: Database) -> None:
    fill(sqlite, units=4)
    ask(sqlite)
    with pytest.raises(Unprocessable) as refusal:
        ask(sqlite, workload="vm2")
    assert (refusal.value.code, refusal.value.status) == ("idempotency-key-reused", 422)
    assert len(list_leases(sqlite, ALICE)) == 1


def test_the_same_word_of_two_callers_is_two_keys(sqlite: Database) -> None:
    fill(sqlite, units=4)
    assert ask(sqlite, who=ALICE) != ask(sqlite, who=BOB)


def test_a_key_is_forgotten_after_a_day_and_not_before(sqlite: Database) -> None:
    fill(sqlite, units=4)
    first = ask(sqlite)
    assert housekeeping.sweep(sqlite, Ages())["keys"] == 0
    assert ask(sqlite) == first
    with sqlite.write() as connection:
        connection.execute(update(idempotency_keys).values(created_at=database_now(-86400 - 60)))
    assert housekeeping.sweep(sqlite, Ages())["keys"] == 1
    assert ask(sqlite) != first


@given(st.text())
def test_any_text_is_a_key_or_refused(text: str) -> None:
    if 1 <= len(text) <= 255 and text.isascii() and text.isprintable() and " " not in text:
        key = IdempotencyKey.of(text, ALICE, "POST", "/v1/leases", b"")
        assert len(key.place) == len(key.request) == 64
    else:
        with pytest.raises(BadRequest, match="fresh uuid"):
            IdempotencyKey.of(text, ALICE, "POST", "/v1/leases", b"")


@given(st.lists(st.text("ab:1", max_size=4), min_size=2, max_size=2, unique=True))
def test_what_differs_anywhere_is_another_place(parts: list[str]) -> None:
    one, other = (Identity(part, "p") for part in parts)
    assert (
        IdempotencyKey.of("k", one, "POST", "/x", b"").place != IdempotencyKey.of("k", other, "POST", "/x", b"").place
    )


def test_a_caller_of_the_same_name_in_another_project_never_gets_the_answer_of_the_first() -> None:
    """Tokens of two projects may well be named alike: ``ci``."""
    places = {
        IdempotencyKey.of("k", Identity("ci", project), method, path, b"").place
        for project in ("lab", "shop", None)
        for method in ("POST", "PUT")
        for path in ("/v1/leases", "/v1/profiles")
    }
    assert len(places) == 12
