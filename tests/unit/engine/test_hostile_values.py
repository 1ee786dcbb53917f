"""Values nobody sends by accident: refused or not found on every database, never a failure of the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from tests.unit.engine.cloud import ADMIN, NOVA_FOR_ADMIN, Host, capacity_of, make_profile, t4, whole

from cantle.engine.arq import create_arqs, delete_arqs, get_arq, list_arqs
from cantle.engine.attribute import create_attribute, list_attributes
from cantle.engine.bind import Bind, bind
from cantle.engine.deployable import list_deployables
from cantle.engine.device import get_device, list_devices
from cantle.engine.host import list_hosts
from cantle.engine.intake import accept_report
from cantle.engine.lease import create_lease, get_lease
from cantle.engine.profile import create_profile, delete_profiles, get_profile, list_profiles
from cantle.engine.results import accept_results
from cantle.engine.work import current_work
from cantle.errors import CantleError
from cantle.model.arq import ArqState
from cantle.model.page import Page
from cantle.store.database import Database
from cantle.wire.work import HandleResult, Outcome, Results

HOSTILE = ["\0", "a\0b", "\ud800", "x" * 70_000, "'; DROP TABLE hosts; --", "💥" * 300, "%s", "{}"]


@pytest.fixture
def host(db: Database) -> Host:
    """A host, and a profile for it."""
    one = Host(db)
    one.report(t4(2))
    make_profile(db)
    return one


def outcome(call: Callable[[], object]) -> str | int:
    """The status of the refusal; "kept" if there was none."""
    try:
        call()
    except CantleError as error:
        return error.status
    return "kept"


@pytest.mark.parametrize("text", HOSTILE)
def test_text_from_anybody_is_refused_or_not_found_or_kept(db: Database, host: Host, text: str) -> None:
    number = list_deployables(db)[0].id
    (arq,) = create_arqs(db, ADMIN, "vgpu")
    good = Bind(arq.uuid, "compute-1", capacity_of(db).rp_uuid, arq.uuid)
    calls: list[Callable[[], object]] = [
        lambda: get_profile(db, text),
        lambda: list_profiles(db, names=[text]),
        lambda: delete_profiles(db, ADMIN, [text]),
        lambda: create_profile(db, ADMIN, name=text, groups=[{"resources:VGPU": "1"}]),
        lambda: create_profile(
            db, ADMIN, name="x", groups=[{"resources:VGPU": "1", "accel:x": text}], description=text
        ),
        lambda: list_devices(db, hostname=text, vendor=text, type=text),
        lambda: get_device(db, text),
        lambda: list_attributes(db, key=text),
        lambda: create_attribute(db, ADMIN, deployable_id=number, key=text, value=text),
        lambda: list_arqs(db, ADMIN, instance=text),
        lambda: list_arqs(db, ADMIN, page=Page(marker=text)),
        lambda: list_arqs(db, ADMIN, page=Page(sort_key=text)),
        lambda: get_arq(db, ADMIN, text),
        lambda: delete_arqs(db, ADMIN, [text]),
        lambda: create_arqs(db, ADMIN, text),
        lambda: bind(db, NOVA_FOR_ADMIN, [replace(good, hostname=text)]),
        lambda: bind(db, NOVA_FOR_ADMIN, [replace(good, arq_uuid=text)]),
        lambda: create_lease(db, ADMIN, profile_name="vgpu", workload=text),
        lambda: create_lease(db, ADMIN, profile_name=text),
        lambda: create_lease(db, ADMIN, profile_name="vgpu", hostname=text),
        lambda: get_lease(db, ADMIN, text),
        lambda: current_work(db, text),
    ]
    assert {outcome(call) for call in calls} <= {"kept", 400, 404}


@pytest.mark.parametrize("number", [0, -1, 2**63, 10**40, -(10**40)])
def test_numbers_out_of_range(db: Database, host: Host, number: int) -> None:
    assert outcome(lambda: list_attributes(db, deployable_id=number)) in ("kept", 400)
    assert outcome(lambda: create_attribute(db, ADMIN, deployable_id=number, key="k", value="v")) in (400, 404)


@pytest.mark.parametrize("text", ["\0", "a\0b", "x" * 70_000])
def test_one_device_with_such_a_text_spoils_no_other(db: Database, host: Host, text: str) -> None:
    (offered,) = whole().deployables
    for bad in (
        msgspec.structs.replace(whole(), model=text),
        msgspec.structs.replace(whole(), address=text),
        msgspec.structs.replace(whole(), deployables=(msgspec.structs.replace(offered, driver_name=text),)),
        msgspec.structs.replace(whole(), deployables=(msgspec.structs.replace(offered, attributes={text: "x"}),)),
        msgspec.structs.replace(
            whole(),
            deployables=(
                msgspec.structs.replace(offered, handles=(msgspec.structs.replace(offered.handles[0], key=text),)),
            ),
        ),
    ):
        host.report(t4(2), bad)
        assert [device.address for device in list_devices(db)] == ["0000:af:00.0"]
        assert [problem.code for problem in list_hosts(db)[0].problems] == ["device-report-unusable"]


@pytest.mark.parametrize("text", ["", "\0", "x" * 70_000])
def test_a_digest_or_start_that_cannot_be_kept_is_refused(db: Database, host: Host, text: str) -> None:
    for wrong in ({"digest": text}, {"agent_start": text}):
        with pytest.raises(CantleError) as caught:
            accept_report(db, "compute-1", msgspec.structs.replace(host.message(), **wrong))
        assert caught.value.code == "bad-report"


def test_a_failure_told_at_length_is_kept_in_part(db: Database, host: Host) -> None:
    (arq,) = create_arqs(db, ADMIN, "vgpu")
    bind(db, NOVA_FOR_ADMIN, [Bind(arq.uuid, "compute-1", capacity_of(db).rp_uuid, arq.uuid)])
    work = current_work(db, "compute-1")
    told = HandleResult(work.wanted[0].uuid, Outcome.FAILED, "c\0" * 200, "m\0" * 50_000)
    accept_results(db, "compute-1", Results(host.start, work.generation, (told,)))
    failed = get_arq(db, ADMIN, arq.uuid)
    assert (failed.state, failed.reason_code, failed.reason) == (ArqState.BIND_FAILED, "c" * 64, "m" * 4000)
