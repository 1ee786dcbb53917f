"""``cantle placement``: what it prints, what it writes, and what it leaves alone, over HTTP against the real service."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.databases import database
from tests.placement_service import Placement
from tests.unit.engine.cloud import NOVA_FOR_ALICE, T4_2B, make_profile, t4, whole
from tests.unit.placement.cloud import AF, Cloud

from cantle.cli.main import run
from cantle.engine.arq import create_arqs, list_arqs
from cantle.engine.bind import Bind, bind
from cantle.engine.capacity import list_capacity


class Desk:
    """A cloud, and a shell in which the keeper's configuration is at hand."""

    def __init__(self, cloud: Cloud, file: Path, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.cloud = cloud
        self.file = file
        self.url = url
        self._capsys = capsys

    def cantle(self, *words: str, code: int = 0) -> str:
        """What ``cantle placement`` prints."""
        ended = run(["placement", "--config-file", str(self.file), *words])
        said = self._capsys.readouterr()
        assert ended == code, said.err
        return said.out + said.err

    def cyborg_made(self, address: str = "0000:af:00.0", trait: str = T4_2B, **inventories: dict[str, Any]) -> str:
        """A provider as Cyborg 17 makes one (contract section 3): its uuid."""
        name = f"compute-1_{address}"
        made = str(uuid.uuid3(uuid.NAMESPACE_DNS, name))
        call = self.cloud.placement.call
        body = {"name": name, "uuid": made, "parent_provider_uuid": self.cloud.nodes["compute-1"]}
        call("POST", "/resource_providers", body)
        path = f"/resource_providers/{made}"
        # Only total and max_unit: the rest is Placement's own default.
        amounts = inventories or {"VGPU": {"total": 4, "max_unit": 4}}
        call("PUT", f"{path}/inventories", {"resource_provider_generation": 0, "inventories": amounts})
        call("PUT", f"/traits/{trait}")
        traits = ["OWNER_CYBORG", trait]
        call("PUT", f"{path}/traits", {"resource_provider_generation": 1, "traits": traits})
        return made

    def everything(self) -> str:
        """All that Placement has, byte for byte."""
        call = self.cloud.placement.call
        providers = call("GET", "/resource_providers")["resource_providers"]
        parts = [
            [call("GET", f"/resource_providers/{one['uuid']}/{part}") for part in ("inventories", "traits")]
            for one in providers
        ]
        return json.dumps([providers, parts], sort_keys=True)


@pytest.fixture
def desk(service: Placement, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Desk]:
    """One host with a T4 and a whole card; nothing is published yet."""
    with database("sqlite", tmp_path) as db, service.listening() as url:
        file = tmp_path / "cantle.conf"
        file.write_text(
            f"[database]\nconnection = sqlite:///{tmp_path / 'cantle.db'}\n"
            f"[placement]\nauth_type = none\nendpoint_override = {url}\n"
        )
        cloud = Cloud(db, service)
        cloud.host.report(t4(4), whole())
        yield Desk(cloud, file, url, capsys)


def test_diff_draws_the_tree_and_writes_nothing(desk: Desk) -> None:
    uuids = {one.resource_class: one.rp_uuid for one in list_capacity(desk.cloud.db)}
    before = desk.everything()
    said = desk.cantle("diff", code=1)
    assert said == (
        f"compute-1 ({desk.cloud.nodes['compute-1']})\n"
        f"├── compute-1_0000:3b:00.0 ({uuids['PGPU']})\n"
        "│       - nothing\n"
        "│       + PGPU 1; OWNER_CYBORG\n"
        f"└── compute-1_0000:af:00.0 ({uuids['VGPU']})\n"
        "        - nothing\n"
        "        + VGPU 4, 1 at most at once; CUSTOM_NVIDIA_1EB8_T4_2B OWNER_CYBORG\n"
    )
    assert desk.everything() == before
    assert desk.cloud.states() == []


def test_sync_with_a_plan_lists_the_writes_and_does_none_of_them(desk: Desk) -> None:
    before = desk.everything()
    said = desk.cantle("sync", "compute-1", "--plan", code=1)
    assert [line.split("to write: ")[1] for line in said.splitlines() if "to write" in line] == [
        "create",
        "traits: OWNER_CYBORG",
        "inventory: PGPU 1",
        "create",
        "traits: CUSTOM_NVIDIA_1EB8_T4_2B OWNER_CYBORG",
        "inventory: VGPU 4, 1 at most at once",
    ]
    assert desk.everything() == before


def test_sync_publishes_and_says_that_all_is_as_it_shall_be(desk: Desk) -> None:
    said = desk.cantle("sync")
    assert said.count("= ") == 2
    assert desk.cloud.shown()[AF] == (4, 0)
    assert desk.cantle("diff", "-o", "value", "-c", "writes") == "\n\n"
    assert desk.cloud.round() == [], "the keeper knows of it"


def test_a_host_that_is_not_there_and_a_missing_section_are_named(desk: Desk, tmp_path: Path) -> None:
    assert "[host-not-found]" in desk.cantle("diff", "nowhere", code=3)
    other = tmp_path / "other.conf"
    other.write_text("")
    assert run(["placement", "--config-file", str(other), "diff"]) == 78


def test_what_cyborg_published_stays_byte_for_byte_when_it_is_taken_over(desk: Desk) -> None:
    """Spec S1.6."""
    made = desk.cyborg_made()
    desk.cloud.host.report(t4(4), whole(traits=("OWNER_CYBORG", "CUSTOM_NVIDIA_20B0")))
    desk.cyborg_made("0000:3b:00.0", "CUSTOM_NVIDIA_20B0", PGPU={"total": 1, "max_unit": 1})
    instance = str(uuid.uuid4())
    allocation = {
        "allocations": {made: {"resources": {"VGPU": 2}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    desk.cloud.placement.call("PUT", f"/allocations/{instance}", allocation)
    desk.cantle("diff", code=1)
    planned = desk.cantle("adopt", "--plan", "-o", "value", "-c", "uuid", "-c", "hostname")
    assert f"{made}\tcompute-1" in planned
    before = desk.everything()
    desk.cantle("adopt", "compute-1")
    assert made in {one.rp_uuid for one in list_capacity(desk.cloud.db)}
    said = desk.cantle("sync", "compute-1", "-o", "json", code=0)
    assert all(not line["writes"] and line["hostname"] == "compute-1" for line in json.loads(said))
    assert json.loads(before)[0] == json.loads(desk.everything())[0], "not even a generation has moved"
    assert desk.everything() == before
    desk.cloud.time_passes()
    desk.cloud.keeper().round()
    assert desk.everything() == before


def test_without_adoption_cyborgs_name_is_in_the_way_and_the_mend_is_named(desk: Desk) -> None:
    desk.cyborg_made()
    said = desk.cantle("sync", code=1)
    assert desk.cloud.states()[0].code == "provider-name-taken"
    assert "not ours: left alone" in said
    desk.cantle("adopt")
    desk.cantle("sync")
    assert desk.cloud.states()[0].code is None


def test_a_card_whose_driver_forgot_the_owners_trait_gets_it(desk: Desk) -> None:
    """LP 2150557."""
    made = desk.cyborg_made("0000:3b:00.0", PGPU={"total": 1, "max_unit": 1})
    path = f"/resource_providers/{made}/traits"
    desk.cloud.placement.call("PUT", path, {"resource_provider_generation": 2, "traits": ["CUSTOM_NVIDIA_1EB8_T4_2B"]})
    desk.cantle("adopt")
    desk.cantle("sync")
    assert "OWNER_CYBORG" in desk.cloud.placement.call("GET", path)["traits"]


def test_what_is_adopted_follows_the_configuration_from_then_on(desk: Desk) -> None:
    made = desk.cyborg_made()
    desk.cantle("adopt")
    desk.cantle("sync")
    desk.cloud.host.report(t4(8), whole())
    desk.cantle("sync")
    inventories = desk.cloud.placement.call("GET", f"/resource_providers/{made}/inventories")["inventories"]
    assert (inventories["VGPU"]["total"], inventories["VGPU"]["max_unit"]) == (8, 4)


def test_with_pools_the_commands_name_profiles_that_isolation_would_make_unfit(desk: Desk, tmp_path: Path) -> None:
    make_profile(desk.cloud.db, "apart", [{"resources:PGPU": "1"}, {"resources:PGPU": "1"}])
    assert "isolate" not in desk.cantle("diff", code=1)
    with (tmp_path / "cantle.conf").open("a") as file:
        file.write("pool_identical = true\n")
    assert "warning: [placement] pool_identical is on, and device profile apart asks" in desk.cantle("diff", code=1)


def test_check_finds_allocations_without_a_request_and_requests_without_an_allocation(desk: Desk) -> None:
    desk.cantle("sync")
    assert "agree" in desk.cantle("check")
    make_profile(desk.cloud.db)
    vgpu = next(one.rp_uuid for one in list_capacity(desk.cloud.db) if one.resource_class == "VGPU")
    stray = str(uuid.uuid4())
    body = {
        "allocations": {vgpu: {"resources": {"VGPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    desk.cloud.placement.call("PUT", f"/allocations/{stray}", body)
    desk.cloud.host.report(t4(4))
    with_arq = str(uuid.uuid4())
    (arq,) = create_arqs(desk.cloud.db, NOVA_FOR_ALICE, "vgpu")
    bind(desk.cloud.db, NOVA_FOR_ALICE, [Bind(arq.uuid, "compute-1", vgpu, with_arq)])
    assert list_arqs(desk.cloud.db, NOVA_FOR_ALICE, instance=with_arq)
    rows = json.loads(desk.cantle("check", "-o", "json", code=1))
    found = {row["consumer"]: (row["allocated"], row["requested"]) for row in rows}
    assert found == {stray: (1, 0), with_arq: (0, 1)}
    assert {row["hostname"] for row in rows} == {"compute-1"}  # called as in every other list
    desk.cloud.placement.call("DELETE", f"/allocations/{stray}")
    desk.cloud.placement.call("PUT", f"/allocations/{with_arq}", body)
    assert "agree" in desk.cantle("check")


def test_what_cyborg_left_and_nobody_offers_any_more_is_taken_over_to_its_end_if_asked_for(desk: Desk) -> None:
    """The upgrade twin: a virtual function that a former manager published, and that an instance holds."""
    held = desk.cyborg_made("0000:41:00.4", "CUSTOM_NVIDIA_2236", PGPU={"total": 2, "max_unit": 2})
    unused = desk.cyborg_made("0000:41:00.5", "CUSTOM_NVIDIA_2236", PGPU={"total": 1, "max_unit": 1})
    instance = str(uuid.uuid4())
    body = {
        "allocations": {held: {"resources": {"PGPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    call = desk.cloud.placement.call
    call("PUT", f"/allocations/{instance}", body)
    desk.cantle("adopt")
    desk.cantle("sync")
    assert desk.cloud.shown()["compute-1_0000:41:00.4 PGPU"] == (2, 0), "left alone unless asked for"
    desk.cantle("adopt", "--leftovers")
    desk.cloud.keeper().round()
    assert desk.cloud.shown()["compute-1_0000:41:00.4 PGPU"] == (1, 1)
    assert unused not in json.dumps(call("GET", "/resource_providers"))
    call("DELETE", f"/allocations/{instance}")
    desk.cloud.time_passes()
    desk.cloud.keeper().round()
    assert held not in json.dumps(call("GET", "/resource_providers"))
