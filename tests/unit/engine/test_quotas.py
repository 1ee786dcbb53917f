"""What a project may have at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.databases import KINDS, database
from tests.unit.engine.cloud import ADMIN, ALICE, BOB, Host, make_profile, t4, whole
from tests.unit.engine.lending import PROJECT, actions, lending_host, says

from cantle.engine.clock import now
from cantle.engine.lease import create_lease, list_leases, release_lease
from cantle.engine.quota import doubt, list_quotas, marker, set_quota
from cantle.engine.tally import count
from cantle.engine.work import current_work
from cantle.errors import BadRequest, Conflict, NotFound
from cantle.model.page import Page
from cantle.model.quota import DEFAULT, Quota
from cantle.store import quota as store
from cantle.store.database import Database
from cantle.wire.work import Outcome


@pytest.fixture
def host(db: Database) -> Host:
    """With slices and a whole card."""
    return lending_host(db)


def test_two_groups_of_two_are_refused_at_a_limit_of_three_before_anything_is_touched(db: Database, host: Host) -> None:
    set_quota(db, ADMIN, PROJECT, "VGPU", 3)
    before = current_work(db, host.name)
    with pytest.raises(Conflict, match="VGPU: limit 3, in use 0, asked for 4") as refused:
        create_lease(db, ALICE, profile_name="pairs")
    assert refused.value.code == "quota-exceeded"
    assert current_work(db, host.name) == before
    assert list_leases(db, ALICE) == []
    assert {one.resource_class: one.lendable for one in count(db)} == {"PGPU": 1, "VGPU": 4}
    assert actions(db)[-1] == "quota.set"
    create_lease(db, BOB, profile_name="pairs")


def test_a_request_of_three_is_refused_at_a_limit_of_two_and_what_is_being_taken_back_counts(
    db: Database, host: Host
) -> None:
    set_quota(db, ADMIN, PROJECT, "VGPU", 2)
    with pytest.raises(Conflict, match="limit 2, in use 0, asked for 3"):
        create_lease(db, ALICE, profile_name="slice", count=3)
    lease = create_lease(db, ALICE, profile_name="slice", count=2)
    host.obey()
    release_lease(db, ALICE, lease.uuid)
    says(db, host, Outcome.FAILED, "device-held")
    with pytest.raises(Conflict, match="in use 2"):
        create_lease(db, ALICE, profile_name="slice")
    assert list_quotas(db, ALICE) == [Quota(PROJECT, "VGPU", 2, 2)]
    says(db, host, Outcome.ABSENT)
    create_lease(db, ALICE, profile_name="slice", count=2)
    assert list_quotas(db, ALICE) == [Quota(PROJECT, "VGPU", 2, 2)]
    assert set_quota(db, ADMIN, PROJECT, "VGPU", None).limit is None
    create_lease(db, ALICE, profile_name="slice")


def test_quotas_of_others_are_for_administrators(db: Database, host: Host) -> None:
    set_quota(db, ADMIN, PROJECT, "VGPU", 2)
    assert list_quotas(db, BOB) == []
    with pytest.raises(NotFound):
        list_quotas(db, BOB, PROJECT)
    for project, name, limit in ((PROJECT, "vgpu", 1), ("", "VGPU", 1), (PROJECT, "VGPU", -1)):
        with pytest.raises(BadRequest):
            set_quota(db, ADMIN, project, name, limit)


@pytest.mark.parametrize(
    ("name", "meant"), [("FOO", ""), ("vgpu", "VGPU"), ("VGPUS", "VGPU"), ("CUSTOM_", ""), ("MEMORY_MB", "")]
)
def test_a_quota_for_a_class_that_no_card_can_ever_have_is_refused_with_those_that_one_can(
    db: Database, name: str, meant: str
) -> None:
    with pytest.raises(BadRequest, match="FPGA, GPU, PGPU, VGPU, and what begins with CUSTOM_") as refused:
        set_quota(db, ADMIN, PROJECT, name, 1)
    assert refused.value.message.endswith(f"did you mean {meant}?" if meant else "CUSTOM_.")
    assert list_quotas(db, ADMIN) == []
    assert set_quota(db, ADMIN, PROJECT, "CUSTOM_TO_COME", 1).limit == 1, "a quota may be there before the card"


def test_a_quota_that_was_set_when_any_name_was_a_class_can_be_taken_away(db: Database) -> None:
    with db.write() as connection:
        store.put(connection, PROJECT, "FOO_2", 1, now())
    assert set_quota(db, ADMIN, PROJECT, "FOO_2", None) == Quota(PROJECT, "FOO_2", None, 0)
    assert list_quotas(db, ADMIN) == []
    with pytest.raises(BadRequest):
        set_quota(db, ADMIN, PROJECT, "foo-2", None)


def test_a_limit_on_a_class_that_no_card_offers_now_is_doubted_by_one_statement(db: Database, host: Host) -> None:
    with db.statements() as sent:
        assert doubt(db, "VGPU", 1) is None
    assert len(sent) == 1
    assert doubt(db, "CUSTOM_TO_COME", None) is None, "it is taken away"
    to_come = doubt(db, "CUSTOM_TO_COME", 0) or ""
    assert to_come.startswith("No card offers CUSTOM_TO_COME now")
    assert "did you mean" not in to_come
    card = whole()
    host.report(t4(4), replace(card, deployables=(replace(card.deployables[0], resource_class="CUSTOM_MI300X"),)))
    assert doubt(db, "CUSTOM_MI300X", 1) is None
    assert "did you mean CUSTOM_MI300X?" in (doubt(db, "CUSTOM_MI300", 1) or "")
    assert "No card offers PGPU now" in (doubt(db, "PGPU", 1) or ""), "one offered it a moment ago"


def test_a_card_that_is_missing_still_has_its_class(db: Database, host: Host) -> None:
    host.report(t4(4))
    assert doubt(db, "PGPU", 1) is None


def test_a_project_without_a_limit_of_its_own_has_the_default(db: Database, host: Host) -> None:
    set_quota(db, ADMIN, DEFAULT, "VGPU", 1)
    with pytest.raises(Conflict, match="VGPU: default limit 1, in use 0, asked for 2"):
        create_lease(db, ALICE, profile_name="slice", count=2)
    create_lease(db, ALICE, profile_name="slice")
    assert list_quotas(db, ALICE) == [Quota(PROJECT, "VGPU", 1, 1, inherited=True)]
    set_quota(db, ADMIN, PROJECT, "VGPU", 3)
    create_lease(db, ALICE, profile_name="slice", count=2)
    assert list_quotas(db, ALICE) == [Quota(PROJECT, "VGPU", 3, 3)]
    create_lease(db, BOB, profile_name="slice")
    assert [one.used for one in list_quotas(db, BOB)] == [1]
    assert set_quota(db, ADMIN, PROJECT, "VGPU", None) == Quota(PROJECT, "VGPU", 1, 3, inherited=True)
    assert set_quota(db, ADMIN, DEFAULT, "VGPU", None) == Quota(DEFAULT, "VGPU", None, 0)
    assert [(one.limit, one.inherited) for one in list_quotas(db, ADMIN)] == [(None, False)] * 2


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_quotas_page_by_page_are_the_whole_list_even_if_what_was_seen_last_has_gone(
    db: Database, host: Host, direction: str
) -> None:
    create_lease(db, ALICE, profile_name="slice", count=2)
    create_lease(db, BOB, profile_name="card")
    for project in ("a", "b/c", DEFAULT):
        for name in ("VGPU", "PGPU"):
            set_quota(db, ADMIN, project, name, 1)
    every = list_quotas(db, ADMIN, page=Page(sort_key="project_id", sort_dir=direction))
    assert len({marker(one) for one in every}) == len(every) == 8
    assert {one.project_id: (one.limit, one.used) for one in every if one.used} == {
        PROJECT: (1, 2),
        "bob-project": (1, 1),
    }
    found: list[Quota] = []
    while True:
        last = marker(found[-1]) if found else None
        with db.statements() as sent:
            one = list_quotas(db, ADMIN, page=Page(limit=1, marker=last, sort_key="project_id", sort_dir=direction))
        assert len(sent) == 1
        found += one
        if not one:
            break
        set_quota(db, ADMIN, one[0].project_id, one[0].resource_class, None)
    assert [marker(one) for one in found] == [marker(one) for one in every]


@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_a_project_sees_its_quotas_page_by_page_and_nobody_else_s(db: Database, host: Host, direction: str) -> None:
    set_quota(db, ADMIN, DEFAULT, "FPGA", 7)
    set_quota(db, ADMIN, "zoe-project", "VGPU", 1)
    set_quota(db, ADMIN, PROJECT, "PGPU", 2)
    create_lease(db, ALICE, profile_name="slice", count=3)
    create_lease(db, BOB, profile_name="slice")
    its = [
        Quota(PROJECT, "FPGA", 7, 0, inherited=True),
        Quota(PROJECT, "PGPU", 2, 0),
        Quota(PROJECT, "VGPU", None, 3),
    ]
    pages: list[Quota] = []
    for _ in its:
        last = marker(pages[-1]) if pages else None
        pages += list_quotas(db, ALICE, page=Page(limit=1, marker=last, sort_key="project_id", sort_dir=direction))
    assert pages == (its if direction == "asc" else its[::-1])


@pytest.mark.parametrize(
    ("page", "code"),
    [
        (Page(sort_key="used"), "bad-sort-key"),
        (Page(sort_key="project_id", marker="a"), "marker-not-found"),
    ],
)
def test_a_page_of_quotas_that_cannot_be_is_refused(sqlite: Database, page: Page, code: str) -> None:
    with pytest.raises(BadRequest) as refused:
        list_quotas(sqlite, ADMIN, page=page)
    assert refused.value.code == code


@pytest.mark.parametrize("project", [PROJECT, DEFAULT])
@pytest.mark.parametrize("kind", KINDS)
def test_two_racing_requests_for_the_last_unit_of_a_quota_one_wins(kind: str, project: str, tmp_path: Path) -> None:
    """On hosts of their own, so that nothing but the quota keeps them apart."""
    with database(kind, tmp_path) as db:
        for name in ("compute-1", "compute-2"):
            Host(db, name).report(t4(8, host=name))
        make_profile(db, "slice")
        for limit in range(1, 6):
            set_quota(db, ADMIN, project, "VGPU", limit)
            gate = threading.Barrier(2)

            def ask(name: str, gate: threading.Barrier = gate) -> str:
                gate.wait(30)
                try:
                    create_lease(db, ALICE, profile_name="slice", hostname=name)
                except Conflict as refused:
                    return refused.code
                return "lent"

            with ThreadPoolExecutor(2) as pool:
                assert sorted(pool.map(ask, ("compute-1", "compute-2"))) == ["lent", "quota-exceeded"]
