"""Intents: set, cleared, followed; and nothing lent of a card between the wish and the host's word that it has followed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.databases import KINDS, database, server_url
from tests.unit.engine.cloud import ADMIN, ALICE, NOVA_FOR_ALICE, Host, bound, capacity_of, make_profile, t4, whole
from tests.unit.engine.following import ADDRESS, BIND, UNBIND, Follower, cut, uncut
from tests.unit.engine.test_races import all_at_once, servers

from cantle.engine.arq import create_arqs, delete_arqs_of_instance
from cantle.engine.bind import Bind, bind
from cantle.engine.device import list_devices, wait_device
from cantle.engine.intent import clear_intent, get_intent, set_intent
from cantle.engine.lease import create_lease, release_lease
from cantle.engine.plan import plan_intent
from cantle.engine.work import current_work, wait_work
from cantle.errors import CantleError, Conflict, NoCapacity, NotFound, PreconditionFailed, PreconditionRequired
from cantle.model.device import Device, Health, Mode
from cantle.model.intent import Intent, IntentState
from cantle.model.lease import Lease
from cantle.model.precondition import Precondition
from cantle.scheduling.choose import Choice, choices
from cantle.store.database import Database
from cantle.wire.intent import DeviceIntent, PlanReport
from cantle.wire.work import Work

__all__ = ["servers"]

WHOLE = Intent(ADDRESS, Mode.PASSTHROUGH)
CUT = Intent(ADDRESS, Mode.MDEV, {ADDRESS: "nvidia-222"})


@pytest.fixture
def host(db: Database) -> Follower:
    """A T4 cut in two, and profiles for its parts and its whole."""
    make_profile(db, "vgpu")
    make_profile(db, "pgpu", [{"resources:PGPU": "1"}])
    return Follower(db)


def wish(db: Database, intent: Intent = WHOLE) -> Device:
    """Want something, having looked at what is wanted now."""
    current = wait_device(db, "compute-1", intent.device).intent.intent
    return set_intent(db, ADMIN, "compute-1", intent, precondition=seen(current))


def seen(intent: Intent | None) -> Precondition:
    """As one who has looked."""
    return Precondition() if intent is None else Precondition(match=frozenset({intent.etag}))


def refused(call: Callable[[], object], kind: type[CantleError] = Conflict) -> CantleError:
    """The error of a call that must fail."""
    with pytest.raises(kind) as caught:
        call()
    return caught.value


def test_a_wish_is_stored_with_its_version_and_card_and_told_to_the_host(db: Database, host: Follower) -> None:
    generation = current_work(db, "compute-1").generation
    device = wish(db, CUT)
    assert device.intent.intent == Intent(ADDRESS, Mode.MDEV, {ADDRESS: "nvidia-222"}, "10de:1eb8", 1)
    assert (device.intent.state, device.intent.set_by) == (IntentState.PENDING, "root")
    assert get_intent(db, "compute-1", "AF:00.0") == device
    work = current_work(db, "compute-1")
    assert work.generation > generation
    assert work.intents == (DeviceIntent(ADDRESS, 1, Mode.MDEV, {ADDRESS: "nvidia-222"}, "10de:1eb8"),)


def test_a_parked_agent_is_woken_by_a_wish(db: Database, host: Follower) -> None:
    generation = current_work(db, "compute-1").generation
    found: list[Work] = []
    waiting = threading.Thread(target=lambda: found.append(wait_work(db, "compute-1", generation, 60)))
    waiting.start()
    wish(db)
    waiting.join(30)
    assert [len(work.intents) for work in found] == [1]


def test_from_the_wish_until_the_host_has_followed_nothing_is_lent_of_the_card(db: Database, host: Follower) -> None:
    wish(db)
    assert capacity_of(db).reason == f"{ADDRESS} is being changed to passthrough (intent 1)"
    assert capacity_of(db).free == 0
    error = refused(partial(create_lease, db, ALICE, profile_name="vgpu"), NoCapacity)
    assert f"1 card (compute-1 {ADDRESS}): is being changed to passthrough (intent 1)" in error.message
    (arq,) = create_arqs(db, NOVA_FOR_ALICE, "vgpu")
    one = Bind(arq.uuid, "compute-1", capacity_of(db).rp_uuid, str(uuid4()))
    assert refused(partial(bind, db, NOVA_FOR_ALICE, [one])).code == "provider-out-of-service"
    host.agent.report(cut(numa_node=1))  # what the agent had seen before it heard of the wish
    assert not capacity_of(db).in_service
    host.follow()
    assert create_lease(db, ALICE, profile_name="pgpu").hostname == "compute-1"


def test_a_host_that_cannot_follow_says_why_and_its_card_stays_out_of_service(db: Database, host: Follower) -> None:
    host.failing = "device-busy"
    wish(db)
    host.follow()
    device = get_intent(db, "compute-1", ADDRESS)
    why = f"{ADDRESS} could not be changed to passthrough (intent 1): pid 7 (Xorg) holds it"
    assert (device.intent.state, device.out_of_service) == (IntentState.FAILED, why)
    assert capacity_of(db).reason == why
    host.failing = None
    host.follow()
    assert get_intent(db, "compute-1", ADDRESS).intent.state is IntentState.APPLIED


def test_an_earlier_failure_does_not_count_for_a_later_wish(db: Database, host: Follower) -> None:
    host.failing = "device-busy"
    wish(db)
    host.follow()
    assert wish(db, CUT).intent.state is IntentState.PENDING
    host.agent.report(cut(intent_tried=1, intent_code="device-busy", intent_error="still busy"))
    assert get_intent(db, "compute-1", ADDRESS).intent.state is IntentState.PENDING


def test_the_host_follows_the_clearing_of_a_wish_as_it_does_a_wish(db: Database, host: Follower) -> None:
    made = wish(db)
    host.follow()
    cleared = clear_intent(db, ADMIN, "compute-1", ADDRESS, precondition=seen(made.intent.intent))
    assert cleared.intent.state is IntentState.PENDING
    assert cleared.out_of_service == f"{ADDRESS} is being changed to what its host's configuration says (intent 2)"
    assert current_work(db, "compute-1").intents == (DeviceIntent(ADDRESS, 2),)
    assert refused(partial(get_intent, db, "compute-1", ADDRESS), NotFound).code == "intent-not-found"
    host.follow()
    device = wait_device(db, "compute-1", ADDRESS)
    assert (device.intent.state, device.mode, device.out_of_service) == (IntentState.NONE, Mode.MDEV, None)


def test_a_version_never_comes_again(db: Database, host: Follower) -> None:
    """A late report of a version that was followed long ago would put a card into service that is another by now."""
    versions = []
    for _ in range(2):
        made = wish(db)
        cleared = clear_intent(db, ADMIN, "compute-1", ADDRESS, precondition=seen(made.intent.intent))
        versions += [made.intent.version, cleared.intent.version]
    assert versions == [1, 2, 3, 4]


def test_a_database_put_back_from_an_older_copy_goes_on_above_what_hosts_know(db: Database, host: Follower) -> None:
    host.agent.report(cut(intent_version=7, intent_tried=9))
    assert not capacity_of(db).in_service  # its host follows a wish that we know nothing of
    assert wish(db).intent.version == 10


def test_two_who_have_seen_the_same_do_not_overwrite_each_other(db: Database, host: Follower) -> None:
    first = wish(db)
    stale = seen(first.intent.intent)
    set_intent(db, ADMIN, "compute-1", CUT, precondition=stale)
    error = refused(partial(set_intent, db, ADMIN, "compute-1", WHOLE, precondition=stale), PreconditionFailed)
    assert (error.code, error.status) == ("intent-changed", 412)
    assert "is mdev in version 2" in error.message
    clear = partial(clear_intent, db, ADMIN, "compute-1", ADDRESS, precondition=stale)
    assert refused(clear, PreconditionFailed).code == "intent-changed"
    assert get_intent(db, "compute-1", ADDRESS).intent.version == 2


def test_who_has_not_looked_may_make_an_intent_but_not_change_one(db: Database, host: Follower) -> None:
    only_new = Precondition(none_match=frozenset({"*"}))
    set_intent(db, ADMIN, "compute-1", WHOLE, precondition=only_new)
    again = partial(set_intent, db, ADMIN, "compute-1", WHOLE)
    assert refused(again, PreconditionRequired).code == "precondition-needed"
    assert refused(partial(again, precondition=only_new), PreconditionFailed).code == "intent-changed"
    assert refused(partial(clear_intent, db, ADMIN, "compute-1", ADDRESS), PreconditionRequired).status == 428
    anyone = Precondition(match=frozenset({"*"}))
    assert clear_intent(db, ADMIN, "compute-1", ADDRESS, precondition=anyone).intent.intent is None
    assert refused(partial(again, precondition=anyone), PreconditionFailed).code == "intent-changed"


def test_a_card_that_is_lent_is_not_changed_and_the_users_are_named(db: Database, host: Follower) -> None:
    lease = create_lease(db, ALICE, profile_name="vgpu", workload="vm1")
    instance = str(uuid4())
    bound(db, host.agent, instance=instance)
    generation = current_work(db, "compute-1").generation
    error = refused(partial(wish, db))
    assert (error.code, error.details) == ("device-in-use", {"leases": [lease.uuid], "instances": [instance]})
    assert f"lease {lease.uuid} (vm1), instance {instance}" in error.message
    assert current_work(db, "compute-1").generation == generation


def test_nor_is_one_whose_units_are_still_being_taken_back(db: Database, host: Follower) -> None:
    instance = str(uuid4())
    lease = create_lease(db, ALICE, profile_name="vgpu")
    bound(db, host.agent, instance=instance)
    release_lease(db, ALICE, lease.uuid)
    delete_arqs_of_instance(db, NOVA_FOR_ALICE, instance)
    error = refused(partial(wish, db))
    assert error.code == "device-in-use"
    assert "compute-1 has yet to take back" in error.message
    assert f"lease {lease.uuid}, unit nvidia-223_1" in error.message
    host.agent.obey()
    assert wish(db).intent.version == 1


def test_a_wish_that_holds_is_not_cleared_under_a_guest(db: Database, host: Follower) -> None:
    made = wish(db)
    host.follow()
    lease = create_lease(db, ALICE, profile_name="pgpu")
    clear = partial(clear_intent, db, ADMIN, "compute-1", ADDRESS, precondition=seen(made.intent.intent))
    assert refused(clear).details["leases"] == [lease.uuid]


def test_what_the_card_cannot_be_is_refused_with_what_it_can(db: Database, host: Follower) -> None:
    host.agent.report(cut(capabilities=("mdev",)))
    error = refused(partial(wish, db))
    assert (error.code, error.details["modes"]) == ("mode-not-possible", ["mdev"])
    assert "cannot be brought to mode passthrough; it can be mdev." in error.message
    error = refused(partial(wish, db, Intent(ADDRESS, Mode.MDEV, {ADDRESS: "nvidia-999"})))
    assert "makes no nvidia-999; its types are nvidia-222 (GRID T4-1B), nvidia-223 (GRID T4-2B)." in error.message
    error = refused(partial(wish, db, Intent(ADDRESS, Mode.MDEV, {"0000:86:00.0": "nvidia-222"})))
    assert f"0000:86:00.0 makes no mediated devices for {ADDRESS}" in error.message


def test_a_type_may_be_named_for_the_card_whose_virtual_functions_make_it(db: Database, host: Follower) -> None:
    host.agent.report(cut(mdev_types={"0000:af:00.4": {"nvidia-222": ""}, "0000:af:00.5": {"nvidia-223": ""}}))
    assert wish(db, Intent(ADDRESS, Mode.MDEV, {ADDRESS: "nvidia-223"})).intent.version == 1
    error = refused(partial(wish, db, Intent(ADDRESS, Mode.MDEV, {"0000:af:00.4": "nvidia-223"})))
    assert "0000:af:00.4 of compute-1 makes no nvidia-223; its types are nvidia-222." in error.message


@pytest.mark.parametrize(
    ("mode", "intent", "says"),
    [
        (Mode.DISPLAY_ONLY, WHOLE, "it is display-only (a console); its mode cannot be chosen at all."),
        (Mode.DISPLAY_ONLY, CUT, "it is display-only (a console); its mode cannot be chosen at all."),
        (Mode.UNASSIGNABLE, WHOLE, "it is unassignable (a console); it can be mdev."),
    ],
)
def test_a_card_that_is_never_lent_has_no_wishes(
    db: Database, host: Follower, mode: Mode, intent: Intent, says: str
) -> None:
    host.agent.report(cut(mode=mode, reason="a console"))
    error = refused(partial(wish, db, intent))
    assert error.code == "mode-not-possible"
    assert error.message.endswith(says)


def test_a_wish_meant_for_another_card_is_refused(db: Database, host: Follower) -> None:
    error = refused(partial(wish, db, Intent(ADDRESS, Mode.PASSTHROUGH, hardware="10de:2235")))
    assert (error.code, error.details) == ("other-hardware", {"hardware": "10de:1eb8"})


def test_a_card_that_is_away_can_be_wished_for(db: Database, host: Follower) -> None:
    host.agent.report(whole())
    device = wish(db)
    assert (device.health, device.intent.state) == (Health.MISSING, IntentState.PENDING)
    assert device.out_of_service == f"{ADDRESS} is missing: its host's last report did not name it"


def test_nothing_is_wished_for_what_nobody_has_seen(db: Database, host: Follower) -> None:
    elsewhere = partial(set_intent, db, ADMIN, "nowhere", WHOLE)
    assert refused(elsewhere, NotFound).code == "host-not-found"
    absent = partial(set_intent, db, ADMIN, "compute-1", Intent("0000:01:00.0", Mode.PASSTHROUGH))
    assert refused(absent, NotFound).code == "device-not-found"
    assert refused(partial(clear_intent, db, ADMIN, "compute-1", ADDRESS), NotFound).code == "intent-not-found"


def test_who_waits_for_a_card_hears_when_its_host_has_followed(db: Database, host: Follower) -> None:
    wish(db)
    found: list[Device] = []
    waiting = threading.Thread(target=lambda: found.append(wait_device(db, "compute-1", ADDRESS, seconds=60)))
    waiting.start()
    host.follow()
    waiting.join(30)
    assert [(device.mode, device.intent.state) for device in found] == [(Mode.PASSTHROUGH, IntentState.APPLIED)]


def test_other_cards_and_hosts_are_not_touched(db: Database, host: Follower) -> None:
    Host(db, "compute-2").report(t4(2, host="compute-2"))
    wish(db)
    assert capacity_of(db, "compute-2").in_service
    assert create_lease(db, ALICE, profile_name="vgpu").hostname == "compute-2"


def test_a_report_of_a_failed_probe_does_not_forget_what_was_wished(db: Database, host: Follower) -> None:
    wish(db)
    host.agent.report(cut(intent_code="x" * 65))  # unusable: the card is out of service, and all else stays as it was
    device = wait_device(db, "compute-1", ADDRESS)
    assert (device.health, device.intent.state) == (Health.FAILED, IntentState.PENDING)


def test_a_plan_is_what_the_host_reported_and_changes_nothing(db: Database, host: Follower) -> None:
    generation = current_work(db, "compute-1").generation
    found = plan_intent(db, "compute-1", WHOLE)
    assert [step.sentence for step in found.plan.steps] == [UNBIND.sentence, BIND.sentence]
    assert (found.plan.warnings, found.refusal) == (("0000:af:00.1 goes with it",), None)
    assert plan_intent(db, "compute-1", CUT).plan.steps == ()
    assert current_work(db, "compute-1") == Work(generation)


def test_a_plan_to_cut_a_whole_card_says_that_no_type_was_named(db: Database, host: Follower) -> None:
    """It said nothing, and the same command without ``--plan`` was then refused with ``mdev-type-not-chosen``."""
    assert plan_intent(db, "compute-1", CUT).plan.warnings == ()
    wish(db)
    host.follow()
    host.agent.report(uncut(cut(intent_version=1, intent_tried=1, plans={"mdev": PlanReport()})))
    (warning,) = plan_intent(db, "compute-1", Intent(ADDRESS, Mode.MDEV)).plan.warnings
    assert f"cantle device show {ADDRESS}" in warning
    assert plan_intent(db, "compute-1", Intent(ADDRESS, Mode.MDEV, {ADDRESS: "nvidia-1"})).plan.warnings == ()


def test_a_plan_says_what_stands_against_it(db: Database, host: Follower) -> None:
    create_lease(db, ALICE, profile_name="vgpu")
    found = plan_intent(db, "compute-1", WHOLE)
    assert found.refusal is not None
    assert (found.refusal.code, len(found.plan.steps)) == ("device-in-use", 2)
    host.agent.report(cut(plans={"passthrough": PlanReport(code="group-shared", message="eth0 is in its group")}))
    host.agent.obey()
    impossible = plan_intent(db, "compute-1", Intent(ADDRESS, Mode.MDEV, {ADDRESS: "nvidia-1"})).refusal
    assert impossible is not None
    assert impossible.code == "mode-not-possible"


def test_a_host_may_refuse_in_its_plan(db: Database, host: Follower) -> None:
    host.agent.report(cut(plans={"passthrough": PlanReport(code="group-shared", message="eth0 is in its group")}))
    refusal = plan_intent(db, "compute-1", WHOLE).refusal
    assert refusal is not None
    assert (refusal.code, refusal.message) == ("group-shared", "eth0 is in its group")
    assert refused(partial(plan_intent, db, "compute-1", CUT)).code == "plan-unknown"


def test_every_call_costs_few_statements_and_reads_write_nothing(db: Database, host: Follower) -> None:
    def cost(call: Callable[[], object]) -> int:
        with db.statements() as sent:
            call()
        return len(sent)

    assert cost(partial(set_intent, db, ADMIN, "compute-1", WHOLE)) == 6
    assert cost(partial(get_intent, db, "compute-1", ADDRESS)) == 1
    assert cost(partial(plan_intent, db, "compute-1", WHOLE)) == 3
    assert cost(partial(list_devices, db)) == 1
    assert cost(partial(current_work, db, "compute-1")) == 2
    anyone = Precondition(match=frozenset({"*"}))
    assert cost(partial(clear_intent, db, ADMIN, "compute-1", ADDRESS, precondition=anyone)) == 6


def test_of_a_wish_and_a_lease_at_once_exactly_one_wins(servers: list[Database]) -> None:
    host = Follower(servers[0])
    make_profile(servers[0])
    for _ in range(8):
        current = wait_device(servers[0], "compute-1", ADDRESS).intent.intent
        wished, lent = all_at_once(
            [
                partial(set_intent, servers[0], ADMIN, "compute-1", CUT, precondition=seen(current)),
                partial(create_lease, servers[-1], ALICE, profile_name="vgpu"),
            ]
        )
        if isinstance(wished, Device):
            assert isinstance(lent, NoCapacity)
            assert current_work(servers[0], "compute-1").wanted == ()
            host.follow()
        else:
            assert getattr(wished, "code", None) == "device-in-use"
            assert isinstance(lent, Lease)
            release_lease(servers[0], ALICE, lent.uuid)
            host.agent.obey()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "sqlite"])
def test_a_wish_between_a_leases_choice_and_its_claim_is_seen_by_the_claim(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where writers are side by side: SQLite has one at a time."""
    with database(kind, tmp_path) as db:
        host, other = Follower(db), Database.open(server_url(kind))
        make_profile(db)

        def interrupted(*asked: Any, **how: Any) -> Iterator[Choice]:
            chosen = list(choices(*asked, **how))
            if wait_device(other, "compute-1", ADDRESS).intent.version == 0:
                set_intent(other, ADMIN, "compute-1", WHOLE)
            return iter(chosen)

        monkeypatch.setattr("cantle.engine.choice.choices", interrupted)
        error = refused(partial(create_lease, db, ALICE, profile_name="vgpu"), NoCapacity)
        assert "is being changed to passthrough" in error.message
        assert current_work(db, "compute-1").wanted == ()
        host.follow()
        assert capacity_of(db).in_service
        other.close()
