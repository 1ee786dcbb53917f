"""What Nova does with a server in its life, and what becomes of its accelerator."""

from __future__ import annotations

import pytest
from tests.openstack.servers import M40, T4, Servers
from tests.real.processes import wait_until

Held = tuple[str, str, str, str]


def held(servers: Servers, uuid: str) -> Held:
    """The request, its state, its host and its unit, which has to be in that host's kernel and in Placement."""
    (arq,) = servers.arqs(uuid)
    host, unit = arq["hostname"], arq["attach_handle_uuid"]
    assert servers.stack.cantle.mediated_devices(host) == {unit}
    assert servers.allocation(uuid) == {f"{host}_{T4}": {"VGPU": 1}}
    return arq["uuid"], arq["state"], host, unit


def test_a_server_keeps_its_slice_while_it_is_stopped_rebooted_and_rebuilt(servers: Servers) -> None:
    uuid = servers.boot("keeps", "slice")
    before = held(servers, uuid)
    assert before[1] == "Bound"
    steps = (
        ("os-stop", None, "SHUTOFF"),
        ("os-start", None, "ACTIVE"),
        ("reboot", {"type": "SOFT"}, "ACTIVE"),
        ("reboot", {"type": "HARD"}, "ACTIVE"),
        ("pause", None, "PAUSED"),
        ("unpause", None, "ACTIVE"),
        ("rebuild", {"imageRef": servers.image}, "ACTIVE"),
    )
    for action, body, status in steps:
        servers.act(uuid, action, body)
        servers.wait_for(uuid, status)
        assert held(servers, uuid) == before, action


def test_a_shelved_server_gives_its_slice_back_and_gets_another_when_it_is_unshelved(servers: Servers) -> None:
    uuid = servers.boot("shelved", "slice")
    before = held(servers, uuid)
    servers.act(uuid, "shelve")
    servers.wait_for(uuid, "SHELVED_OFFLOADED")
    assert servers.arqs(uuid) == []
    assert servers.allocation(uuid) == {}
    wait_until("the host has taken the slice back", lambda: not servers.stack.cantle.mediated_devices(before[2]))
    servers.act(uuid, "unshelve")
    servers.wait_for(uuid, "ACTIVE")
    after = held(servers, uuid)
    assert after[1] == "Bound"
    assert after[0] != before[0]


def test_a_server_gets_a_slice_and_a_whole_card_of_one_host(servers: Servers) -> None:
    uuid = servers.boot("both", "both")
    arqs = servers.arqs(uuid)
    (host,) = {arq["hostname"] for arq in arqs}
    assert [(arq["attach_handle_type"], arq["state"]) for arq in arqs] == [("MDEV", "Bound"), ("PCI", "Bound")]
    assert servers.allocation(uuid) == {f"{host}_{T4}": {"VGPU": 1}, f"{host}_{M40}": {"PGPU": 1}}
    assert servers.stack.cantle.mediated_devices(host) == {arqs[0]["attach_handle_uuid"]}
    assert servers.stack.cantle.driver(host, M40) == "vfio-pci"


@pytest.mark.parametrize(
    ("action", "body"),
    [("suspend", None), ("migrate", None), ("os-migrateLive", {"host": None, "block_migration": "auto"})],
)
def test_what_nova_does_not_do_with_accelerators_changes_nothing(servers: Servers, action: str, body: object) -> None:
    uuid = servers.boot("refused", "slice")
    before = held(servers, uuid)
    answer = servers.try_to(uuid, action, body)
    assert answer.status_code == 400, answer.text
    assert "accelerators" in answer.text
    assert held(servers, uuid) == before
