"""What an operator is told whose Placement, login or file is not as it should be."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest
from tests.placement_service import Placement, Timeout
from tests.unit.engine.cloud import NOVA_FOR_ALICE, T4_2B, Host, make_profile, whole
from tests.unit.placement.test_placement_commands import Desk, desk
from tests.unit.placement.test_pools import a100

from cantle.cli.main import run
from cantle.engine.arq import create_arqs
from cantle.engine.bind import Bind, bind
from cantle.engine.capacity import list_capacity
from cantle.errors import CantleError, Unavailable
from cantle.placement.client import PlacementClient
from cantle.store import publication

__all__ = ["desk"]


def with_more(file: Path, text: str) -> Path:
    """The keeper's file with more at the end of its section ``[placement]``."""
    changed = file.with_name("changed.conf")
    changed.write_text(file.read_text() + text)
    return changed


def said(desk: Desk, file: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What ``cantle placement`` prints with a file."""
    assert run(["placement", "--config-file", str(file), *words]) != 0
    both = capsys.readouterr()
    return both.out + both.err


def test_a_user_without_a_role_is_told_which_role_is_missing(service: Placement) -> None:
    service.roles = "member"
    with pytest.raises(Unavailable) as refused:
        PlacementClient(service.adapter()).find("compute-1")
    assert refused.value.code == "placement-away"
    assert "needs the role service" in refused.value.message


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_placement_with_a_fault_inside_is_away_for_a_while_and_refuses_nothing(
    desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """A 500, as when its database is away, was called placement-refused: exit code 1, and nothing to wait for."""
    monkeypatch.setattr(desk.cloud.placement, "wsgi", lambda _environ: (status, {}, b"<html>"))
    words = desk.cantle("diff", code=69)
    assert f"answered {status}" in words
    assert "[placement-away]" in words
    assert "tries again by itself" in words


def test_a_login_that_placement_does_not_take_is_not_answered_with_a_missing_role(service: Placement) -> None:
    """A 401 says that the login is wrong or over; which role it has does not matter."""
    service.faults.always = 401
    with pytest.raises(Unavailable) as refused:
        PlacementClient(service.adapter()).find("compute-1")
    assert "role" not in refused.value.message
    assert "username, password and project of [placement]" in refused.value.message
    assert "[keystone_authtoken]" in refused.value.message


def test_an_address_that_is_not_placements_is_no_provider_that_is_gone(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path too much in endpoint_override: it was called provider-gone."""
    wrong = with_more(desk.file, "endpoint_override = " + desk.url + "/resources\n")
    words = said(desk, wrong, capsys, "diff")
    assert "[placement-away]" in words
    assert "endpoint_override" in words


def test_a_catalog_without_placement_is_said_to_be_one(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = desk.file.with_name("none.conf")
    wrong.write_text(desk.file.read_text().replace("endpoint_override", "# endpoint_override"))
    words = said(desk, wrong, capsys, "diff")
    assert "region_name" in words
    assert "[placement-away]" in words


def test_an_empty_name_of_a_provider_is_refused_since_placement_takes_it_for_any(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    """``provider_names = compute-1:`` published the host below the first provider of the cloud."""
    words = said(desk, with_more(desk.file, "provider_names = compute-1:\n"), capsys, "diff")
    assert "[placement] provider_names: compute-1: is not HOST:PROVIDER" in words
    assert "[bad-option]" in words


@pytest.mark.parametrize("command", [["diff"], ["sync", "--plan"], ["sync"]], ids=" ".join)
def test_whoever_asks_is_told_that_the_reshaper_is_not_for_us(
    desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """Writes were shown that never come, and the cards were said to be no more."""
    desk.cloud.host.report(a100(1), a100(2))
    desk.cantle("sync")
    answer = desk.cloud.placement.wsgi

    def refusing(environ: dict[str, object]) -> tuple[int, dict[str, str], bytes]:
        return (403, {}, b"{}") if environ["PATH_INFO"] == "/reshaper" else answer(environ)

    monkeypatch.setattr(desk.cloud.placement, "wsgi", refusing)
    words = said(desk, with_more(desk.file, "pool_identical = true\n"), capsys, *command)
    assert "warning: compute-1: " in words
    assert "[reshaper-forbidden]" in words
    assert "because its cards are offered by other providers from now on" in words
    assert "no more" not in words


def test_a_wrong_password_is_no_placement_that_is_away_for_a_while(
    desk: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(environ: dict[str, object]) -> tuple[int, dict[str, str], bytes]:
        return (401 if environ["PATH_INFO"] == "/v3/auth/tokens" else 404), {}, b"{}"

    monkeypatch.setattr(desk.cloud.placement, "wsgi", refusing)
    login = {"auth_type": "password", "auth_url": f"{desk.url}/v3", "username": "cantle", "password": "WRONG"}
    domains = {"user_domain_name": "Default", "project_domain_name": "Default", "project_name": "service"}
    wrong = with_more(desk.file, "".join(f"{name} = {value}\n" for name, value in {**login, **domains}.items()))
    words = said(desk, wrong, capsys, "diff")
    assert "Keystone refuses the login of [placement]" in words
    assert "WRONG" not in words


def test_a_provider_that_is_left_alone_is_a_difference(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """It was shown as ``= None``, and the exit code said that all was well."""
    desk.cantle("sync")
    card = next(one.rp_uuid for one in list_capacity(desk.cloud.db) if one.resource_class == "PGPU")
    path = f"/resource_providers/{card}/traits"
    seen = desk.cloud.placement.call("GET", path)
    desk.cloud.placement.call("PUT", path, {**seen, "traits": []})
    words = said(desk, desk.file, capsys, "diff")
    assert "! provider-not-ours: " in words
    assert "None" not in words


def test_a_host_that_a_keeper_is_at_holds_up_no_other(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """``cantle placement sync`` ended at the first of them, with nothing said of the others."""
    with desk.cloud.db.write() as connection:
        (number,) = publication.hosts_named(connection, ["compute-1"]).values()
        assert publication.claim_now(connection, number, "compute-1", "a keeper", 60)
    desk.cloud.compute_node("compute-2")
    Host(desk.cloud.db, "compute-2").report(whole())
    assert "on host compute-1; try again" in said(desk, desk.file, capsys, "sync")
    assert list(desk.cloud.shown("compute-2").values()) == [(1, 0)]


def test_a_host_that_placement_does_not_know_keeps_no_other_from_being_adopted(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    """``cantle placement adopt`` ended there: what it had taken over already was not shown, and the rest was not taken over."""
    desk.cyborg_made()
    Host(desk.cloud.db, "a-new-host").report(whole())
    words = said(desk, desk.file, capsys, "adopt")
    assert "warning: a-new-host: " in words
    assert "[host-not-in-placement]" in words
    assert "compute-1_0000:af:00.0" in words


def card_of(desk: Desk, resource_class: str = "VGPU") -> str:
    """The uuid of the provider of a class."""
    return next(one.rp_uuid for one in list_capacity(desk.cloud.db) if one.resource_class == resource_class)


def test_diff_names_the_provider_that_has_the_name_of_ours(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """It showed that ours would be made, beside the other one that was "left alone"; every attempt at it failed."""
    other = desk.cyborg_made()
    words = said(desk, desk.file, capsys, "diff")
    assert f"! provider-name-taken: Provider {other} has the name compute-1_0000:af:00.0" in words
    assert "cantle placement adopt compute-1" in words


def test_diff_names_one_outside_the_hosts_tree_too_once_the_keeper_has_met_it(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    other = str(uuid4())
    desk.cloud.placement.call("POST", "/resource_providers", {"name": "compute-1_0000:af:00.0", "uuid": other})
    desk.cloud.keeper().round()
    assert f"! provider-name-taken: Provider {other}" in said(desk, desk.file, capsys, "diff")


def test_diff_shows_a_provider_that_hangs_below_another_one(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """Its two lines were equal, and what differed was not said."""
    desk.cantle("sync")
    path = f"/resource_providers/{card_of(desk)}"
    elsewhere = card_of(desk, "PGPU")
    moved = {"name": "compute-1_0000:af:00.0", "parent_provider_uuid": elsewhere}
    desk.cloud.placement.call("PUT", path, moved)
    words = said(desk, desk.file, capsys, "diff")
    assert f"because it hangs below {elsewhere}, and belongs below {desk.cloud.nodes['compute-1']}" in words
    assert "because" not in desk.cantle("sync"), "it is moved back"


def test_a_provider_that_lost_the_owners_trait_is_answered_with_the_commands(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.cantle("sync")
    card = card_of(desk)
    path = f"/resource_providers/{card}/traits"
    seen = desk.cloud.placement.call("GET", path)
    desk.cloud.placement.call("PUT", path, {**seen, "traits": [T4_2B]})
    words = said(desk, desk.file, capsys, "diff")
    assert f"resource provider trait set --trait {T4_2B} --trait OWNER_CYBORG {card}" in words
    assert f"openstack resource provider delete {card}" in words


def test_a_request_whose_provider_is_no_more_is_no_case_for_novas_healing(desk: Desk) -> None:
    """``check`` advised to heal allocations, for which there was no provider."""
    desk.cantle("sync")
    make_profile(desk.cloud.db)
    (arq,) = create_arqs(desk.cloud.db, NOVA_FOR_ALICE, "vgpu")
    card = card_of(desk)
    bind(desk.cloud.db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", card, str(uuid4()))])
    desk.cloud.placement.call("DELETE", f"/resource_providers/{card}")
    (row,) = json.loads(desk.cantle("check", "-o", "json", code=1))
    assert "its provider is not in Placement" in row["says"]
    assert "cantle placement sync compute-1" in row["says"]
    desk.cantle("sync")
    (row,) = json.loads(desk.cantle("check", "-o", "json", code=1))
    assert "heal_allocations" in row["says"]


def test_a_silence_of_placement_says_how_long_it_was_waited_for(service: Placement) -> None:
    service.faults.always = Timeout()
    with pytest.raises(Unavailable) as refused:
        PlacementClient(service.adapter()).find("compute-1")
    assert "timeout of [placement]" in refused.value.message


def test_a_placement_that_is_too_old_for_a_call_says_so(service: Placement) -> None:
    service.faults.always = 406
    with pytest.raises(CantleError) as refused:
        PlacementClient(service.adapter()).move(str(uuid4()), "card", str(uuid4()))
    assert "too old for API 1.37" in refused.value.message
