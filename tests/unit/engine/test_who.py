"""Who has what, in both directions."""

from __future__ import annotations

import pytest
from tests.unit.engine.cloud import ADMIN, ALICE, BOB, NOVA_FOR_ALICE, Host, bound, whole
from tests.unit.engine.lending import lending_host, says, slices_host
from tests.unit.engine.units import with_units

from cantle.engine.device import list_devices
from cantle.engine.lease import create_lease, release_lease
from cantle.engine.results import accept_results
from cantle.engine.who import find
from cantle.engine.work import current_work
from cantle.errors import BadRequest
from cantle.model.attach_handle import AttachType
from cantle.model.attachment import Attachment
from cantle.store.database import Database
from cantle.wire.inventory import HandleReport
from cantle.wire.work import HandleResult, Outcome, Results


@pytest.fixture
def host(db: Database) -> Host:
    """With slices and a whole card."""
    return lending_host(db)


def test_who_answers_in_both_directions_with_few_statements(db: Database, host: Host) -> None:
    lease = create_lease(db, ALICE, profile_name="slice", workload="my-container")
    host.obey()
    (unit,) = current_work(db, host.name).wanted
    (arq,) = bound(db, slices_host(db), NOVA_FOR_ALICE, "slice")
    (device,) = list_devices(db, address="0000:af:00.0", hostname=host.name)
    questions = {
        "0000:af:00.0": 2,
        "0000:AF:00.0": 2,
        "af:00.0": 2,
        unit.uuid: 1,
        unit.uuid.upper(): 1,
        str(arq.instance_uuid): 1,
        arq.uuid: 1,
        "my-container": 1,
        lease.uuid: 1,
        device.uuid: 1,
        "nobody": 0,
    }
    for question, holdings in questions.items():
        with db.statements() as sent:
            answer = find(db, ALICE, question)
        assert len(answer.now) == holdings, question
        assert len(sent) <= 5
    (one,) = find(db, ALICE, "my-container").now
    assert (one.device, one.unit_uuid, one.by, one.state) == ("0000:af:00.0", unit.uuid, "alice", "lent")
    into = create_lease(db, ALICE, profile_name="slice", attachment=Attachment.parse("lxc:c1"))
    for question in ("c1", "lxc:c1"):
        with db.statements() as sent:
            (held,) = find(db, ALICE, question).now
        assert (held.lease_uuid, held.guest, len(sent)) == (into.uuid, "lxc:c1", 2)
    assert find(db, ALICE, "libvirt:c1").now == ()
    assert find(db, BOB, "0000:af:00.0").now == ()
    release_lease(db, ALICE, lease.uuid)
    says(db, host, Outcome.FAILED, "device-held")
    (one,) = find(db, ALICE, "my-container").now
    assert (one.state, one.reason) == ("releasing", "device-held")
    says(db, host, Outcome.ABSENT)
    answer = find(db, ADMIN, unit.uuid)
    assert answer.now == ()
    assert [past.action for past in answer.past] == ["unit.returned", "unit.not-back", "unit.lent"]


def test_what_was_done_is_found_by_everything_it_was_done_to_with_few_statements(db: Database, host: Host) -> None:
    box = Attachment.parse("lxc:c1")
    lease = create_lease(db, ALICE, profile_name="slice", workload="training", attachment=box)
    (unit,) = (one.uuid for one in current_work(db, host.name).wanted)
    create_lease(db, BOB, profile_name="card", workload="other")
    work = current_work(db, host.name)
    ready = tuple(HandleResult(one.uuid, Outcome.READY, entered=True) for one in work.wanted)
    accept_results(db, host.name, Results(host.start, work.generation, ready))
    (arq,) = bound(db, slices_host(db), NOVA_FOR_ALICE, "slice")
    for question, devices in {
        unit: ["0000:af:00.0"],
        lease.uuid: ["0000:af:00.0"],
        "training": ["0000:af:00.0"],
        "c1": ["0000:af:00.0"],
        "lxc:c1": ["0000:af:00.0"],
        "libvirt:c1": [],
        "0000:af:00.0": ["0000:af:00.0"] * 2,
        "AF:00.0": ["0000:af:00.0"] * 2,
        arq.uuid: ["0000:af:00.0"],
        str(arq.instance_uuid): ["0000:af:00.0"],
        "other": ["0000:3b:00.0"],
    }.items():
        with db.statements() as sent:
            past = find(db, ADMIN, question).past
        assert [one.device for one in past if one.action == "unit.lent"] == devices, question
        assert {one.action for one in past} <= {"unit.lent"}, (
            "who made the lease is in the log, and nothing that was done to a unit"
        )
        assert len(sent) <= 5
    assert find(db, ALICE, "other").past == ()
    assert find(db, BOB, "training").past == ()


def test_a_part_of_a_card_is_asked_for_by_its_own_address(db: Database, host: Host) -> None:
    info = {"domain": "0000", "bus": "3b", "device": "00", "function": "4"}
    host.report(with_units(whole(), (HandleReport("0000:3b:00.4", AttachType.PCI, info),)))
    lease = create_lease(db, ALICE, profile_name="card")
    for question in ("0000:3b:00.4", "0000:3b:00.0"):
        assert [one.lease_uuid for one in find(db, ALICE, question).now] == [lease.uuid]


def test_only_the_latest_of_what_was_done_is_shown(db: Database, host: Host) -> None:
    for _ in range(11):
        lease = create_lease(db, ALICE, profile_name="card")
        host.obey()
        release_lease(db, ALICE, lease.uuid)
        host.obey()
    past = find(db, ALICE, "0000:3b:00.0").past
    assert len(past) == 20
    assert (past[0].action, past[0].lease_uuid) == ("unit.returned", lease.uuid)


@pytest.mark.parametrize("question", ["", "x" * 256, "nul\0byte"])
def test_a_question_that_names_nothing_is_refused(sqlite: Database, question: str) -> None:
    with pytest.raises(BadRequest) as refused:
        find(sqlite, ADMIN, question)
    assert refused.value.code == "bad-argument"
