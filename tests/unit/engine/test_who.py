"""Who has what, in both directions."""

from __future__ import annotations

import pytest
from tests.unit.engine.cloud import ADMIN, ALICE, BOB, NOVA_FOR_ALICE, Host, bound
from tests.unit.engine.lending import lending_host, says, slices_host

from cantle.engine.lease import create_lease, release_lease
from cantle.engine.who import find
from cantle.engine.work import current_work
from cantle.model.attachment import Attachment
from cantle.store.database import Database
from cantle.wire.work import Outcome


@pytest.fixture
def host(db: Database) -> Host:
    """With slices and a whole card."""
    return lending_host(db)


def test_who_answers_in_both_directions_with_few_statements(db: Database, host: Host) -> None:
    lease = create_lease(db, ALICE, profile_name="slice", workload="my-container")
    host.obey()
    (unit,) = current_work(db, host.name).wanted
    (arq,) = bound(db, slices_host(db), NOVA_FOR_ALICE, "slice")
    questions = {
        "0000:af:00.0": 2,
        unit.uuid: 1,
        unit.uuid.upper(): 1,
        str(arq.instance_uuid): 1,
        arq.uuid: 1,
        "my-container": 1,
        lease.uuid: 1,
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
