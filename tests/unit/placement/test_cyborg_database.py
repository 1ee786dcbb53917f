"""``cantle placement adopt --cyborg-database``: what Cyborg's instances have is theirs still, under the same uuids."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine
from tests.cyborg_database import SCHEMA, CyborgDatabase
from tests.unit.engine.cloud import NOVA_FOR_ALICE, T4_2B, Host, t4, whole
from tests.unit.placement.test_placement_commands import Desk, desk

from cantle.engine.arq import create_arqs, delete_arqs_of_instance, list_arqs
from cantle.engine.bind import Bind, bind
from cantle.engine.capacity import list_capacity
from cantle.engine.profile import list_profiles
from cantle.engine.work import current_work
from cantle.model.arq import ArqState

__all__ = ["desk"]

AF, PGPU = "0000:af:00.0", "0000:3b:00.0"
TYPE = "nvidia-223"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Where Cyborg's database is."""
    return f"sqlite:///{tmp_path / 'cyborg.db'}"


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """It, with its tables."""
    made = create_engine(url)
    SCHEMA.create_all(made)
    yield made
    made.dispose()


@pytest.fixture
def cyborg(engine: Engine) -> CyborgDatabase:
    """Cyborg's database, empty."""
    return CyborgDatabase(engine)


def mark(number: int) -> dict[str, str]:
    """What the handle of a mediated device has besides its parent's address."""
    return {"asked_type": TYPE, "vgpu_mark": f"{TYPE}_{number}"}


class Life:
    """A T4 in four, and a whole card, as Cyborg published and lent them: one unit of each to one instance."""

    def __init__(self, desk: Desk, cyborg: CyborgDatabase) -> None:
        self.vgpus = desk.cyborg_made()
        self.card = desk.cyborg_made(PGPU, "CUSTOM_NVIDIA_20B0", PGPU={"total": 1, "max_unit": 1})
        self.units = [str(uuid.uuid4()) for _ in range(4)]
        cyborg.device("other-host", AF, str(uuid.uuid4()), {})
        marks = {unit: mark(number) for number, unit in enumerate(self.units)}
        numbers = cyborg.device("compute-1", AF, self.vgpus, marks)
        whole_unit = str(uuid.uuid4())
        (card_number,) = cyborg.device("compute-1", PGPU, self.card, {whole_unit: {}}).values()
        self.profile = cyborg.profile("gold", [{"resources:VGPU": "1", f"trait:{T4_2B}": "required"}])
        whole_profile = cyborg.profile("card", [{"resources:PGPU": "1"}])
        self.instance, self.other = str(uuid.uuid4()), str(uuid.uuid4())
        on = {"hostname": "compute-1.example.org"}
        self.mediated = cyborg.request(
            self.profile,
            **{
                "device_rp_uuid": self.vgpus,
                "instance_uuid": self.instance,
                "attach_handle_id": numbers[self.units[2]],
            },
            **on,
        )
        self.passed = cyborg.request(
            whole_profile,
            **{"device_rp_uuid": self.card, "instance_uuid": self.other, "attach_handle_id": card_number},
            **on,
        )
        _allocate(desk, self.instance, self.vgpus, "VGPU")
        _allocate(desk, self.other, self.card, "PGPU")


def _allocate(desk: Desk, instance: str, provider: str, resource_class: str) -> None:
    body = {
        "allocations": {provider: {"resources": {resource_class: 1}}},
        **{"project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "INSTANCE"},
    }
    desk.cloud.placement.call("PUT", f"/allocations/{instance}", body)


def rows(text: str) -> dict[str, dict[str, Any]]:
    """What was printed, by uuid."""
    return {row["uuid"]: row for row in json.loads(text)}


def test_bound_requests_keep_their_uuids_units_and_instances(desk: Desk, cyborg: CyborgDatabase, url: str) -> None:
    life = Life(desk, cyborg)
    said = rows(desk.cantle("adopt", "--cyborg-database", url, "-o", "json"))
    assert {said[one]["has"] for one in (life.mediated, life.passed)} == {"kept"}
    (arq,) = list_arqs(desk.cloud.db, NOVA_FOR_ALICE, instance=life.instance, resolved=True)
    assert (arq.uuid, arq.state, arq.device_rp_uuid) == (life.mediated, ArqState.BOUND, life.vgpus)
    assert (arq.attach_handle_type, arq.attach_handle_uuid) == ("MDEV", life.units[2])
    assert arq.attach_handle_info["vgpu_mark"] == f"{TYPE}_2"
    assert (arq.project_id, arq.profile_name, arq.required) == ("alice-project", "gold", (T4_2B,))
    (card,) = list_arqs(desk.cloud.db, NOVA_FOR_ALICE, instance=life.other)
    assert (card.uuid, card.attach_handle_info["bus"]) == (life.passed, "3b")
    assert {one.name for one in list_profiles(desk.cloud.db)} == {"gold", "card"}
    wanted = {one.uuid for one in current_work(desk.cloud.db, "compute-1").wanted}
    assert life.units[2] in wanted, "the agent is told what is lent, under the uuid that the mediated device has"
    assert len(wanted) == 2
    assert "agree" in desk.cantle("check"), "each allocation has its request"


def test_what_cyborg_published_stays_byte_for_byte_with_its_requests(
    desk: Desk, cyborg: CyborgDatabase, url: str
) -> None:
    desk.cloud.host.report(t4(4), whole(traits=("OWNER_CYBORG", "CUSTOM_NVIDIA_20B0")))
    Life(desk, cyborg)
    before = desk.everything()
    desk.cantle("adopt", "--cyborg-database", url)
    desk.cloud.time_passes()
    desk.cloud.keeper().round()
    assert desk.cloud.states()[0].code is None
    assert desk.everything() == before


def test_units_taken_over_are_lent_to_nobody_else_and_come_back(desk: Desk, cyborg: CyborgDatabase, url: str) -> None:
    life = Life(desk, cyborg)
    desk.cantle("adopt", "--cyborg-database", url)
    db, host = desk.cloud.db, desk.cloud.host
    for _ in range(3):
        (arq,) = create_arqs(db, NOVA_FOR_ALICE, "gold")
        bind(db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", life.vgpus, str(uuid.uuid4()))])
    free = {one.resource_class: one.free for one in list_capacity(db)}
    assert free == {"VGPU": 0, "PGPU": 0}
    host.report(t4(4), whole())
    host.obey()
    assert list_arqs(db, NOVA_FOR_ALICE, instance=life.instance)[0].state is ArqState.BOUND
    delete_arqs_of_instance(db, NOVA_FOR_ALICE, life.instance)
    host.obey()
    free = {one.resource_class: one.free for one in list_capacity(db)}
    assert free == {"VGPU": 1, "PGPU": 0}


def test_mediated_devices_that_the_agent_takes_for_strangers_are_their_instances_units(
    desk: Desk, cyborg: CyborgDatabase, url: str
) -> None:
    """Until it is told whose they are, an agent reports what is left of the card beside them: of a full one, nothing."""
    db, host = desk.cloud.db, desk.cloud.host
    host.report(t4(1), whole())
    vgpus = desk.cyborg_made()
    units = [str(uuid.uuid4()) for _ in range(4)]
    numbers = cyborg.device("compute-1", AF, vgpus, {unit: mark(number) for number, unit in enumerate(units)})
    profile = cyborg.profile("gold", [{"resources:VGPU": "1"}])
    held: dict[str, str] = {}
    for unit in units[:3]:
        held[unit] = str(uuid.uuid4())
        on = {"hostname": "compute-1", "instance_uuid": held[unit], "attach_handle_id": numbers[unit]}
        cyborg.request(profile, device_rp_uuid=vgpus, **on)
        _allocate(desk, held[unit], vgpus, "VGPU")
    desk.cantle("adopt", "--cyborg-database", url)
    assert {one.uuid for one in current_work(db, "compute-1").wanted} == set(held)
    host.report(t4(4), whole())
    for unit, instance in held.items():
        assert list_arqs(db, NOVA_FOR_ALICE, instance=instance)[0].attach_handle_uuid == unit
    assert {one.resource_class: (one.total, one.free) for one in list_capacity(db)}["VGPU"] == (4, 1)
    desk.cantle("sync")
    assert desk.cloud.placement.call("GET", f"/resource_providers/{vgpus}/usages")["usages"] == {"VGPU": 3}
    assert "agree" in desk.cantle("check")


def test_a_plan_says_the_same_and_changes_nothing(desk: Desk, cyborg: CyborgDatabase, url: str) -> None:
    Life(desk, cyborg)
    before = desk.everything()
    planned = rows(desk.cantle("adopt", "--plan", "--cyborg-database", url, "-o", "json"))
    assert desk.everything() == before
    assert list_profiles(desk.cloud.db) == []
    assert rows(desk.cantle("adopt", "--cyborg-database", url, "-o", "json")) == planned


def test_a_request_that_ended_here_does_not_come_back_by_adopting_again(
    desk: Desk, cyborg: CyborgDatabase, url: str
) -> None:
    life = Life(desk, cyborg)
    desk.cantle("adopt", "--cyborg-database", url)
    delete_arqs_of_instance(desk.cloud.db, NOVA_FOR_ALICE, life.instance)
    said = rows(desk.cantle("adopt", "--cyborg-database", url, "-o", "json"))
    assert said[life.mediated]["has"] == "not kept: its host offers no unit like it that is not lent", (
        "it is on its way back"
    )
    desk.cloud.placement.call("DELETE", f"/allocations/{life.instance}")
    desk.cloud.host.obey()
    said = rows(desk.cantle("adopt", "--cyborg-database", url, "-o", "json"))
    assert said[life.mediated]["has"] == "not kept: its instance has no allocation of its provider in Placement"
    assert list_arqs(desk.cloud.db, NOVA_FOR_ALICE, instance=life.instance) == []


def test_of_two_hosts_each_profile_is_said_once(desk: Desk, cyborg: CyborgDatabase, url: str) -> None:
    Life(desk, cyborg)
    desk.cloud.compute_node("compute-2")
    Host(desk.cloud.db, "compute-2").report(t4(4, host="compute-2"))
    planned = desk.cantle("adopt", "--plan", "--cyborg-database", url, "-o", "value", "-c", "what", "-c", "name")
    assert sorted(line for line in planned.splitlines() if line.startswith("profile")) == [
        "profile\tcard",
        "profile\tgold",
    ]


def test_adopting_again_takes_nothing_twice(desk: Desk, cyborg: CyborgDatabase, url: str) -> None:
    Life(desk, cyborg)
    desk.cantle("adopt", "--cyborg-database", url)
    assert "Nothing to take over" in desk.cantle("adopt", "--cyborg-database", url)


def test_what_cannot_be_kept_says_why(desk: Desk, cyborg: CyborgDatabase, url: str) -> None:
    life = Life(desk, cyborg)
    here = {"hostname": "compute-1", "instance_uuid": str(uuid.uuid4())}
    gone = cyborg.device("compute-1", "0000:41:00.0", str(uuid.uuid4()), {str(uuid.uuid4()): {}})
    odd = cyborg.profile("nothing", [{"resources:VGPU": "0"}])
    requests = {
        cyborg.request(life.profile, state="BindFailed", **here): "it is BindFailed",
        cyborg.request(
            life.profile, device_rp_uuid=str(uuid.uuid4()), attach_handle_id=next(iter(gone.values())), **here
        ): "is no device's that is offered here",
    }
    elsewhere = cyborg.request(life.profile, hostname="compute-9", state="Unbound")
    said = rows(desk.cantle("adopt", "--cyborg-database", url, "-o", "json"))
    for one, why in requests.items():
        assert said[one]["has"].startswith("not kept: ")
        assert why in said[one]["has"]
    assert elsewhere not in said
    (profile,) = [row for row in said.values() if row["name"] == "nothing"]
    assert profile["has"].startswith("not kept: Group 0 asks for")
    assert odd


def test_the_database_says_which_provider_is_which_devices_whatever_its_name(
    desk: Desk, cyborg: CyborgDatabase, url: str
) -> None:
    made = str(uuid.uuid4())
    body = {"name": "slot-7", "uuid": made, "parent_provider_uuid": desk.cloud.nodes["compute-1"]}
    desk.cloud.placement.call("POST", "/resource_providers", body)
    cyborg.device("compute-1", AF, made, {})
    assert "Nothing to take over" in desk.cantle("adopt", "--plan")
    desk.cantle("adopt", "--cyborg-database", url)
    assert made in {one.rp_uuid for one in list_capacity(desk.cloud.db)}


def test_its_url_may_be_in_cyborgs_own_file(desk: Desk, cyborg: CyborgDatabase, url: str, tmp_path: Path) -> None:
    Life(desk, cyborg)
    file = tmp_path / "cyborg.conf"
    file.write_text(f"[api]\nport = 6666\napi_workers = 1\n[database]\nconnection = {url}\n")
    assert "request" in desk.cantle("adopt", "--plan", "--cyborg-conf", str(file))
    file.write_text("[database]\n")
    assert "[database-not-configured]" in desk.cantle("adopt", "--plan", "--cyborg-conf", str(file), code=78)


def test_another_database_is_named_without_its_password(desk: Desk, tmp_path: Path) -> None:
    empty = f"sqlite:///{tmp_path / 'nothing.db'}"
    assert "[cyborg-database-unreadable]" in desk.cantle("adopt", "--cyborg-database", empty, code=78)
    away = "postgresql://cyborg:hidden-word@127.0.0.1:1/cyborg"
    said = desk.cantle("adopt", "--cyborg-database", away, code=78)
    assert "[cyborg-database-unreadable]" in said
    assert "hidden-word" not in said


def test_nothing_is_written_to_cyborgs_database(desk: Desk, cyborg: CyborgDatabase, url: str, tmp_path: Path) -> None:
    Life(desk, cyborg)
    before = (tmp_path / "cyborg.db").read_bytes()
    desk.cantle("adopt", "--cyborg-database", url)
    assert (tmp_path / "cyborg.db").read_bytes() == before
