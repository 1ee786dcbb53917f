"""Tokens through the engine: whoever has a good one is known, and every bad one is refused in the same words."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select, update
from tests.unit.engine.cloud import ADMIN

from cantle.engine.audit import list_records
from cantle.engine.join import invite, join
from cantle.engine.token import authenticate, create_token, first_admin, list_tokens, revoke_token
from cantle.errors import BadRequest, Conflict, NotFound, Unauthorized
from cantle.model.identity import LOCAL_PROJECT
from cantle.model.token import PATTERN, Role, TokenState, parse, text_of
from cantle.store.database import Database
from cantle.store.token_table import tokens
from cantle.store.types import database_now
from cantle.wire.join import JoinRequest
from cantle.wire.protocol import PROTOCOL


def token(db: Database, role: Role = Role.MEMBER, **values: object) -> str:
    """The text of a new token."""
    hostname = "compute-1" if role in (Role.AGENT, Role.JOIN) else None
    return create_token(db, ADMIN, **{"name": "alice", "role": role, "hostname": hostname, **values})[1]  # type: ignore[arg-type]


def expire(db: Database) -> None:
    """The time of all tokens is over."""
    with db.write() as connection:
        connection.execute(update(tokens).values(expires_at=database_now(-1)))


def test_a_token_says_who_has_it_and_what_he_may(db: Database) -> None:
    who = authenticate(db, token(db, Role.MANAGER, project_id="lab"))
    assert (who.user_id, who.project_id, who.hostname, who.is_service) == ("alice", "lab", None, False)
    assert who.roles == {"manager", "member", "reader"}
    agent = authenticate(db, token(db, Role.AGENT))
    assert (set(agent.roles), agent.project_id, agent.hostname) == ({"agent"}, None, "compute-1")
    assert authenticate(db, token(db, Role.SERVICE)).is_service
    assert authenticate(db, token(db, Role.ADMIN)).project_id == LOCAL_PROJECT


def test_the_database_knows_no_secret(db: Database) -> None:
    text = token(db)
    _, secret = parse(text) or ("", "")
    with db.read() as connection:
        (row,) = connection.execute(select(tokens)).all()
    assert len(secret) == 43
    assert not any(secret in str(value) for value in row)


def test_two_tokens_share_nothing_that_could_be_guessed(sqlite: Database) -> None:
    texts = [token(sqlite) for _ in range(50)]
    assert len({text[-43:] for text in texts}) == 50
    assert all(re.fullmatch(PATTERN, text) for text in texts)


def test_an_expired_a_revoked_an_altered_an_unknown_token_and_none_at_all_are_refused_alike(db: Database) -> None:
    good = token(db)
    revoked = token(db)
    revoke_token(db, ADMIN, authenticate(db, revoked).token_uuid or "")
    other = parse(good)
    assert other is not None
    altered = [text_of(other[0], "A" * 43), good[:-1] + ("A" if good[-1] != "A" else "B"), good.upper(), good + "A"]
    bad = [revoked, *altered, text_of("00000000-0000-0000-0000-000000000000", other[1]), "", "x", "\0", "cantle__"]
    refusals = []
    for text in bad:
        with pytest.raises(Unauthorized) as caught:
            authenticate(db, text)
        refusals.append((caught.value.code, caught.value.message, caught.value.details))
    expire(db)
    with pytest.raises(Unauthorized) as caught:
        authenticate(db, good)
    refusals.append((caught.value.code, caught.value.message, caught.value.details))
    assert len({str(refusal) for refusal in refusals}) == 1


def test_who_a_caller_is_costs_one_statement_and_a_note_of_its_use_once_a_minute(db: Database) -> None:
    text = token(db)
    with db.statements() as first:
        authenticate(db, text)
    with db.statements() as second:
        authenticate(db, text)
    assert (len(first), len(second)) == (2, 1)
    with db.write() as connection:
        connection.execute(update(tokens).values(last_used_at=database_now(-61)))
    with db.statements() as later:
        authenticate(db, text)
    assert len(later) == 2


def test_an_agents_calls_are_not_noted_since_its_host_says_when_it_was_heard_of(db: Database) -> None:
    text = token(db, Role.AGENT)
    with db.statements() as sent:
        authenticate(db, text)
    assert len(sent) == 1


def test_a_token_works_while_its_use_cannot_be_noted(tmp_path: Path, sqlite: Database) -> None:
    """A database that is read-only for an hour, as during a failover, still knows who may read."""
    text = token(sqlite)
    read_only = Database.open(f"sqlite:///file:{tmp_path / 'cantle.db'}?mode=ro&uri=true")
    try:
        assert authenticate(read_only, text).user_id == "alice"
    finally:
        read_only.close()


def test_over_is_over(db: Database) -> None:
    token(db, name="first")
    second = token(db, name="second")
    revoke_token(db, ADMIN, authenticate(db, second).token_uuid or "")
    revoke_token(db, ADMIN, next(one.uuid for one in list_tokens(db, every=True) if one.name == "second"))
    assert [(one.name, one.state) for one in list_tokens(db)] == [("first", TokenState.VALID)]
    expire(db)
    assert {one.name: one.state for one in list_tokens(db, every=True)} == {
        "first": TokenState.EXPIRED,
        "second": TokenState.REVOKED,
    }
    with pytest.raises(NotFound):
        revoke_token(db, ADMIN, "00000000-0000-0000-0000-000000000000")


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"name": ""}, "bad-token-name"),
        ({"name": "a b"}, "bad-token-name"),
        ({"name": "x" * 101}, "bad-token-name"),
        ({"role": Role.AGENT, "hostname": None}, "bad-token-host"),
        ({"role": Role.READER, "hostname": "compute-1"}, "bad-token-host"),
        ({"role": Role.AGENT, "hostname": "-"}, "bad-hostname"),
        ({"role": Role.AGENT, "project_id": "lab"}, "bad-token-project"),
        ({"project_id": ""}, "bad-token-project"),
        ({"project_id": "a\nb"}, "bad-token-project"),
        ({"expires_in_s": 0}, "bad-token-expiry"),
        ({"expires_in_s": float("nan")}, "bad-token-expiry"),
        ({"role": Role.JOIN, "expires_in_s": 86_401}, "bad-token-expiry"),
    ],
)
def test_a_token_that_makes_no_sense_is_not_made(sqlite: Database, values: dict[str, object], code: str) -> None:
    with pytest.raises(BadRequest) as caught:
        token(sqlite, **values)  # type: ignore[arg-type]
    assert caught.value.code == code
    assert list_tokens(sqlite, every=True) == []


def test_an_invitation_ends_by_itself(db: Database) -> None:
    made, _ = create_token(db, ADMIN, name="compute-1", role=Role.JOIN, hostname="compute-1")
    assert made.expires_at is not None


def test_an_invitation_becomes_the_only_token_of_its_host_once(db: Database) -> None:
    _, before = create_token(db, ADMIN, name="agent", role=Role.AGENT, hostname="compute-1")
    _, others = create_token(db, ADMIN, name="agent", role=Role.AGENT, hostname="compute-2")
    _, code = invite(db, ADMIN, "compute-1")
    guest = authenticate(db, code)
    answer = join(db, guest, JoinRequest())
    assert (answer.host, authenticate(db, answer.token).hostname) == ("compute-1", "compute-1")
    with pytest.raises(Unauthorized):
        join(db, guest, JoinRequest())  # who was quicker with it had it
    for over in (code, before):
        with pytest.raises(Unauthorized):
            authenticate(db, over)
    assert authenticate(db, others).hostname == "compute-2"
    (joined,) = list_records(db, action="host.join")
    assert (joined.hostname, joined.token_uuid) == ("compute-1", guest.token_uuid)
    made = authenticate(db, answer.token).token_uuid
    assert joined.facts == {"token": made, "tokens_revoked": "1"}


def test_an_agent_that_cannot_be_understood_keeps_its_invitation_for_when_it_can(db: Database) -> None:
    _, code = invite(db, ADMIN, "compute-1")
    with pytest.raises(Conflict) as caught:
        join(db, authenticate(db, code), JoinRequest(protocol=PROTOCOL + 1))
    assert caught.value.code == "protocol-mismatch"
    assert join(db, authenticate(db, code), JoinRequest()).host == "compute-1"


def test_the_first_administrators_token_is_kept_before_it_is_good(db: Database) -> None:
    def full_disk(_text: str) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        first_admin(db, full_disk)
    assert list_tokens(db, every=True) == []
    kept: list[str] = []
    assert first_admin(db, kept.append)
    assert authenticate(db, kept[0]).is_admin
    assert not first_admin(db, kept.append)


@given(st.text(alphabet=string.ascii_lowercase + string.digits + "_-cantle", max_size=100))
def test_whatever_is_no_token_is_not_taken_for_one(text: str) -> None:
    parsed = parse(text)
    assert parsed is None or text_of(*parsed) == text


@given(st.uuids(), st.text(alphabet=string.ascii_letters + string.digits + "-_", min_size=43, max_size=43))
def test_a_token_that_is_written_is_read_as_it_was(uuid: object, secret: str) -> None:
    assert parse(text_of(str(uuid), secret)) == (str(uuid), secret)
