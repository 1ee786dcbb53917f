"""Whole cards that guests of Cyborg's have while `cantle placement adopt` runs: theirs still, and nobody else's before they are back."""

from __future__ import annotations

import msgspec
from tests.cyborg_database import CyborgDatabase
from tests.unit.engine.cloud import NOVA_FOR_ALICE, t4, whole
from tests.unit.placement.test_cyborg_database import PGPU, Life, cyborg, engine, rows, url
from tests.unit.placement.test_placement_commands import Desk, desk

from cantle.engine.arq import delete_arqs_of_instance, list_arqs
from cantle.engine.capacity import list_capacity
from cantle.engine.work import current_work
from cantle.model.arq import ArqState
from cantle.model.device import Health
from cantle.wire.inventory import DeviceReport

__all__ = ["cyborg", "desk", "engine", "url"]


def held() -> DeviceReport:
    """The whole card as an agent reports it that does not know whose it is: somebody has it, so there is nothing to lend."""
    card = whole(traits=("OWNER_CYBORG", "CUSTOM_NVIDIA_20B0"))
    nothing = msgspec.structs.replace(card.deployables[0], handles=())
    return msgspec.structs.replace(card, health=Health.DEGRADED, deployables=(nothing,))


def test_a_whole_card_that_a_guest_has_is_taken_over_as_it_is_and_lent_to_nobody_else_before_it_is_back(
    desk: Desk, cyborg: CyborgDatabase, url: str
) -> None:
    db, host = desk.cloud.db, desk.cloud.host
    host.report(t4(4), held())
    life = Life(desk, cyborg)
    before = desk.everything()
    said = rows(desk.cantle("adopt", "--cyborg-database", url, "-o", "json"))
    assert said[life.passed]["has"] == "kept"
    (arq,) = list_arqs(db, NOVA_FOR_ALICE, instance=life.other, resolved=True)
    assert (arq.uuid, arq.state, arq.device_rp_uuid) == (life.passed, ArqState.BOUND, life.card)
    assert (arq.attach_handle_type, arq.attach_handle_info["bus"]) == ("PCI", "3b")
    (unit,) = [one for one in current_work(db, "compute-1").wanted if one.device == PGPU]
    assert unit.uuid == arq.attach_handle_uuid
    host.report(t4(4), whole(traits=("OWNER_CYBORG", "CUSTOM_NVIDIA_20B0")))  # now it knows whose it is
    desk.cantle("sync")
    assert desk.everything() == before, "its provider is as it was, with its allocation"
    assert {one.resource_class: (one.total, one.free) for one in list_capacity(db)}["PGPU"] == (1, 0)
    delete_arqs_of_instance(db, NOVA_FOR_ALICE, life.other)
    desk.cloud.placement.call("DELETE", f"/allocations/{life.other}")
    host.obey()
    host.report()
    assert {one.resource_class: (one.total, one.free) for one in list_capacity(db)}["PGPU"] == (1, 1)
    desk.cantle("sync")
    assert desk.cloud.shown()[f"compute-1_{PGPU} PGPU"] == (1, 0)


def test_a_whole_card_whose_request_nobody_knows_is_drained_and_offered_again_when_its_guest_has_ended(
    desk: Desk, cyborg: CyborgDatabase
) -> None:
    """From Placement alone: its provider and allocation are kept, and nothing more may be taken of it."""
    desk.cloud.host.report(t4(4), held())
    life = Life(desk, cyborg)
    desk.cantle("adopt")
    desk.cantle("sync")
    assert desk.cloud.shown()[f"compute-1_{PGPU} PGPU"] == (1, 1)
    assert desk.cloud.placement.call("GET", f"/allocations/{life.other}")["allocations"]
    assert f"retiring: compute-1_{PGPU}" in desk.cloud.states()[0].waiting
    desk.cloud.placement.call("DELETE", f"/allocations/{life.other}")
    desk.cloud.host.report(t4(4), whole(traits=("OWNER_CYBORG", "CUSTOM_NVIDIA_20B0")))
    desk.cantle("sync")
    assert desk.cloud.shown()[f"compute-1_{PGPU} PGPU"] == (1, 0)
    assert life.card in {one.rp_uuid for one in list_capacity(desk.cloud.db)}, "under its uuid"
