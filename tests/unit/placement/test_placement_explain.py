"""``cantle explain --placement``: why Placement offers no host, against the real service over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from tests.databases import database
from tests.placement_service import Placement
from tests.unit.engine.cloud import ADMIN, T4_2B, Host, make_profile, t4, whole
from tests.unit.placement.cloud import Cloud

from cantle.cli.main import run
from cantle.engine.capacity import list_capacity
from cantle.engine.flavor import create_flavor
from cantle.engine.lease import create_lease
from cantle.keeper.placement_explain import explain
from cantle.model.alias import NO_ALIASES
from cantle.placement.client import PlacementClient
from cantle.store.publication import hosts_named


class Desk:
    """Two hosts, each with a T4 in four and a whole card, published; and a shell."""

    def __init__(self, cloud: Cloud, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.cloud = cloud
        self._file = file
        self._capsys = capsys
        cloud.compute_node("compute-2")
        cloud.host.report(t4(4), whole())
        Host(cloud.db, "compute-2").report(t4(4, host="compute-2"), whole(host="compute-2"))
        make_profile(cloud.db, "slice", [{"resources:VGPU": "1", f"trait:{T4_2B}": "required"}])
        make_profile(cloud.db, "both", [{"resources:VGPU": "1"}, {"resources:PGPU": "1"}])
        self.publish()

    def publish(self) -> None:
        """The keeper's round."""
        self.cloud.round()

    def why(self, *words: str, code: int = 0) -> Any:
        """What ``cantle explain --placement`` answers; its words where it fails."""
        ended = run(["explain", "--placement", "--config-file", str(self._file), *words, "-o", "json"])
        said = self._capsys.readouterr()
        assert ended == code, said.err
        return said.err if code else json.loads(said.out)

    def reasons(self, *words: str, group: int = 0) -> dict[str, str]:
        """Of a group, by code, what is so; those of another class left out."""
        found = self.why(*words)["groups"][group]["reasons"]
        return {one["code"]: one["what"] for one in found if one["code"] != "other-class"}

    def provider(self, resource_class: str, hostname: str) -> str:
        """The uuid of a host's provider of a class."""
        (found,) = (
            one.rp_uuid
            for one in list_capacity(self.cloud.db)
            if (one.resource_class, one.hostname) == (resource_class, hostname)
        )
        return found

    def allocate(self, amounts: dict[str, dict[str, int]]) -> None:
        """An instance takes so much of providers."""
        body = {
            "allocations": {uuid: {"resources": some} for uuid, some in amounts.items()},
            "project_id": "alice",
            "user_id": "alice",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        self.cloud.placement.call("PUT", f"/allocations/{uuid4()}", body)

    def mark(self, uuid: str, *traits: str) -> None:
        """Give a provider these traits and no others."""
        path = f"/resource_providers/{uuid}"
        generation = self.cloud.placement.call("GET", path)["generation"]
        body = {"resource_provider_generation": generation, "traits": list(traits)}
        self.cloud.placement.call("PUT", f"{path}/traits", body)


@pytest.fixture
def desk(service: Placement, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Desk]:
    """See `Desk`."""
    with database("sqlite", tmp_path) as db, service.listening() as url:
        file = tmp_path / "cantle.conf"
        file.write_text(
            f"[database]\nconnection = sqlite:///{tmp_path / 'cantle.db'}\n"
            f"[placement]\nauth_type = none\nendpoint_override = {url}\n"
            '[pci]\nalias = {"name": "t4", "vendor_id": "10de", "product_id": "1eb8"}\n'
        )
        yield Desk(Cloud(db, service), file, capsys)


def test_the_hosts_that_placement_offers_are_named(desk: Desk) -> None:
    found = desk.why("--profile", "slice")
    assert found["fitting"] == ["compute-1", "compute-2"]
    assert (found["hosts"], found["cards"], found["groups"][0]["suitable"]) == (2, 4, 2)
    assert desk.why("--profile", "both", "--host", "compute-2")["fitting"] == ["compute-2"]


def test_what_is_allocated_is_counted_and_freeing_it_changes_the_answer(desk: Desk) -> None:
    for host in ("compute-1", "compute-2"):
        desk.allocate({desk.provider("VGPU", host): {"VGPU": 1}})
        for _ in range(3):
            desk.allocate({desk.provider("VGPU", host): {"VGPU": 1}})
    found = desk.why("--profile", "slice")
    (reason,) = (one for one in found["groups"][0]["reasons"] if one["code"] == "too-few-left")
    assert (found["fits"], reason["cards"], reason["hosts"]) == (False, 2, 2)
    assert reason["what"] == "has 4 of 4 VGPU allocated, 1 wanted"


def test_one_host_that_a_lease_of_our_own_fills_is_reserved_in_placement(desk: Desk) -> None:
    make_profile(desk.cloud.db, "card", [{"resources:PGPU": "1"}])
    create_lease(desk.cloud.db, ADMIN, profile_name="card", hostname="compute-1")
    desk.publish()
    assert desk.why("--profile", "both")["fitting"] == ["compute-2"]
    assert desk.reasons("--profile", "both", "--host", "compute-1", group=1) == {
        "all-reserved": "has all PGPU reserved in Placement"
    }


def test_a_trait_that_placement_lacks_is_named_though_our_own_database_has_it(desk: Desk) -> None:
    desk.mark(desk.provider("VGPU", "compute-1"), "OWNER_CYBORG")
    assert desk.why("--profile", "slice")["fitting"] == ["compute-2"]
    assert desk.reasons("--profile", "slice") == {"lacks-trait": f"lacks {T4_2B} in Placement"}


def test_a_trait_that_nobody_has_heard_of_is_lacked_by_all(desk: Desk) -> None:
    make_profile(desk.cloud.db, "odd", [{"resources:VGPU": "1", "trait:CUSTOM_ODD": "required"}])
    assert desk.reasons("--profile", "odd") == {"lacks-trait": "lacks CUSTOM_ODD in Placement"}


def test_a_trait_that_is_forbidden_is_named(desk: Desk) -> None:
    make_profile(desk.cloud.db, "other", [{"resources:VGPU": "1", f"trait:{T4_2B}": "forbidden"}])
    assert desk.why("--profile", "other")["fitting"] == []
    assert desk.reasons("--profile", "other") == {"forbidden-trait": f"has {T4_2B}, which is forbidden"}


def test_one_of_several_traits_is_enough_and_none_is_not(desk: Desk) -> None:
    for trait in ("CUSTOM_ODD", "CUSTOM_EVEN"):
        desk.cloud.placement.call("PUT", f"/traits/{trait}")
    either = ("--spec", "resources1:VGPU=1", "--spec")
    assert desk.why(*either, f"trait1:in:CUSTOM_ODD,{T4_2B}=required")["fitting"] == ["compute-1", "compute-2"]
    found = desk.reasons(*either, "trait1:in:CUSTOM_ODD,CUSTOM_EVEN=required")
    assert found == {"lacks-trait": "lacks all of CUSTOM_EVEN, CUSTOM_ODD in Placement"}


def test_forbidding_a_trait_that_placement_does_not_know_leaves_no_host(desk: Desk) -> None:
    make_profile(desk.cloud.db, "odd", [{"resources:VGPU": "1", "trait:CUSTOM_ODD": "forbidden"}])
    (reason,) = desk.why("--profile", "odd")["together"]
    assert (reason["code"], reason["hosts"]) == ("unknown-trait", 2)
    desk.cloud.placement.call("PUT", "/traits/CUSTOM_ODD")
    assert desk.why("--profile", "odd")["fitting"] == ["compute-1", "compute-2"]


def test_what_an_operator_reserved_is_told_as_his(desk: Desk) -> None:
    path = f"/resource_providers/{desk.provider('VGPU', 'compute-1')}/inventories/VGPU"
    desk.cloud.placement.call("PUT", path, {**desk.cloud.placement.call("GET", path), "reserved": 4})
    with desk.cloud.db.read() as connection:
        (number,) = hosts_named(connection, ["compute-1"]).values()
    assert desk.cloud.keeper().publish_now(number, "compute-1")
    assert desk.reasons("--profile", "slice") == {"all-reserved": "has all VGPU reserved by an operator"}


def test_more_than_one_group_may_take_of_a_provider_says_so(desk: Desk) -> None:
    make_profile(desk.cloud.db, "two", [{"resources:VGPU": "2"}])
    assert desk.reasons("--profile", "two") == {"not-so-many-at-once": "gives one group 1 to 1 VGPU, 2 wanted"}


def test_a_provider_that_somebody_deleted_is_not_in_placement(desk: Desk) -> None:
    desk.cloud.placement.call("DELETE", f"/resource_providers/{desk.provider('VGPU', 'compute-1')}")
    assert desk.reasons("--profile", "slice") == {"not-in-placement": "is not in Placement"}


def test_a_host_that_is_disabled_for_the_scheduler_says_so(desk: Desk) -> None:
    desk.mark(desk.cloud.nodes["compute-1"], "COMPUTE_STATUS_DISABLED")
    found = desk.why("--profile", "slice")
    assert found["fitting"] == ["compute-2"]
    assert [one["code"] for one in found["together"]] == ["compute-disabled"]


def test_isolated_groups_that_share_a_card_say_so(desk: Desk) -> None:
    for host in ("compute-1", "compute-2"):
        path = f"/resource_providers/{desk.provider('VGPU', host)}/inventories/VGPU"
        desk.cloud.placement.call("PUT", path, {**desk.cloud.placement.call("GET", path), "max_unit": 4})
    specs = {"resources1:VGPU": "1", "resources2:VGPU": "1", "group_policy": "isolate"}
    create_flavor(desk.cloud.db, ADMIN, name="apart", extra_specs=specs, aliases=NO_ALIASES)
    found = desk.why("--flavor", "apart")
    assert not found["fits"]
    assert [(one["code"], one["hosts"]) for one in found["together"]] == [("not-isolated", 2)]


def test_groups_that_fit_one_by_one_alone_say_so(desk: Desk) -> None:
    """There are cards enough; but two groups want the only one with the trait."""
    others = [whole(address=f"0000:{bus}:00.0") for bus in ("5e", "5f")]
    desk.cloud.host.report(t4(4), whole(traits=("OWNER_CYBORG", "CUSTOM_FAST")), *others)
    desk.publish()
    fast = {"resources:PGPU": "1", "trait:CUSTOM_FAST": "required"}
    make_profile(desk.cloud.db, "cards", [fast, fast, {"resources:PGPU": "1"}])
    found = desk.why("--profile", "cards", "--host", "compute-1")
    assert [one["code"] for one in found["together"]] == ["not-together"]


def _max_unit(desk: Desk, most: int) -> None:
    for host in ("compute-1", "compute-2"):
        path = f"/resource_providers/{desk.provider('VGPU', host)}/inventories/VGPU"
        desk.cloud.placement.call("PUT", path, {**desk.cloud.placement.call("GET", path), "max_unit": most})


def test_two_groups_that_fall_on_one_provider_are_more_than_it_gives_at_once(desk: Desk) -> None:
    """Each of them finds the provider, which gives one request one vGPU."""
    make_profile(desk.cloud.db, "twice", [{"resources:VGPU": "1"}, {"resources:VGPU": "1"}])
    (reason,) = desk.why("--profile", "twice")["together"]
    assert (reason["code"], reason["hosts"]) == ("not-so-many-at-once", 2)
    assert reason["what"] == "gives one request at most 1 VGPU of one provider, 1 in all, 2 wanted together"
    _max_unit(desk, 4)
    assert desk.why("--profile", "twice")["fits"], "the reason was the true one"


def test_groups_that_want_more_together_than_there_is_left_say_how_much_that_is(desk: Desk) -> None:
    _max_unit(desk, 4)
    make_profile(desk.cloud.db, "triple", [{"resources:VGPU": "2"}, {"resources:VGPU": "3"}])
    (reason,) = desk.why("--profile", "triple")["together"]
    assert (reason["code"], reason["what"]) == ("too-few-together", "has 4 VGPU left in Placement, 5 wanted together")


def test_what_is_asked_for_64_times_is_told_once_and_looked_at_once(desk: Desk) -> None:
    for host in ("compute-1", "compute-2"):
        desk.mark(desk.provider("VGPU", host), "OWNER_CYBORG")
    (group,) = desk.why("--profile", "slice", "--count", "64")["groups"]
    assert (group["units"], group["suitable"]) == (64, 0)


def test_what_placement_cannot_be_asked_is_refused(desk: Desk) -> None:
    assert "not-for-placement" in desk.why("--spec", "pci_passthrough:alias=t4:1", code=2)
    assert "host-not-found" in desk.why("--profile", "slice", "--host", "nowhere", code=3)


def test_it_asks_as_much_of_placement_in_a_larger_cloud(desk: Desk) -> None:
    def requests() -> int:
        client = PlacementClient(desk.cloud.placement.adapter())
        explain(desk.cloud.db, client, name="both")
        return client.requests

    before = requests()
    for number in range(3, 9):
        desk.cloud.compute_node(f"compute-{number}")
        Host(desk.cloud.db, f"compute-{number}").report(t4(4, host=f"compute-{number}"))
    desk.publish()
    assert requests() == before


def amend(desk: Desk, **fields: object) -> None:
    """An operator sets fields of both T4s, and the keeper looks."""
    for host in ("compute-1", "compute-2"):
        path = f"/resource_providers/{desk.provider('VGPU', host)}/inventories/VGPU"
        desk.cloud.placement.call("PUT", path, {**desk.cloud.placement.call("GET", path), **fields})
    desk.cloud.time_passes()
    desk.publish()


@pytest.mark.parametrize(
    ("fields", "what", "mend"),
    [
        ({"min_unit": 2, "max_unit": 4}, "gives one group 2 to 4 VGPU, 1 wanted", "VGPU:min_unit=1"),
        ({"step_size": 2, "max_unit": 4}, "gives one group 1 to 4 VGPU in steps of 2, 1 wanted", "VGPU:step_size=1"),
        (
            {"allocation_ratio": 0.2},
            "has 0 of 4 VGPU allocated and a ratio of 0.2, 1 wanted",
            "VGPU:allocation_ratio=1",
        ),
        ({"reserved": 4}, "has all VGPU reserved by an operator", "VGPU:reserved=0"),
    ],
)
def test_what_an_operator_set_is_answered_with_the_command_that_takes_it_back(
    desk: Desk, fields: dict[str, object], what: str, mend: str
) -> None:
    """For a ``min_unit`` or step the advice was to ask for fewer; a ratio was not named."""
    amend(desk, **fields)
    (reason,) = (one for one in desk.why("--profile", "slice")["groups"][0]["reasons"] if one["what"] == what)
    assert f"openstack resource provider inventory set --amend --resource {mend} PROVIDER" in reason["mend"]


def test_a_slip_of_the_pen_in_a_standard_trait_is_not_to_be_created(desk: Desk) -> None:
    """Placement makes ``CUSTOM_`` traits only."""
    make_profile(desk.cloud.db, "odd", [{"resources:VGPU": "1", "trait:HW_GPU_APY_CUDA": "forbidden"}])
    (reason,) = desk.why("--profile", "odd")["together"]
    assert "openstack trait list" in reason["mend"]
    assert "create" not in reason["mend"]
