"""A server with an accelerator, from its boot to its end."""

from __future__ import annotations

from tests.openstack.servers import M40, T4, Servers
from tests.openstack.stack import HOSTS


def test_a_server_gets_its_slice_and_gives_it_back(servers: Servers) -> None:
    uuid = servers.boot("one-slice", "slice")
    (arq,) = servers.arqs(uuid)
    host = servers.show(uuid)["OS-EXT-SRV-ATTR:host"]
    assert (arq["state"], arq["hostname"], arq["attach_handle_type"]) == ("Bound", host, "MDEV")
    assert servers.allocation(uuid) == {f"{host}_{T4}": {"VGPU": 1}}
    assert servers.stack.cantle.mediated_devices(host) == {arq["attach_handle_uuid"]}
    listed = servers.openstack.json("demo", "accelerator", "arq", "list")
    assert [(row["uuid"], row["state"]) for row in listed] == [(arq["uuid"], "Bound")]
    servers.delete(uuid)
    servers.assert_nothing_is_left()


def test_a_burst_of_servers_gets_a_slice_each(servers: Servers) -> None:
    uuids = servers.create_many("burst", "slice", 8)
    assert len(uuids) == 8
    for uuid in uuids:
        servers.wait_for(uuid, "ACTIVE")
    arqs = [arq for uuid in uuids for arq in servers.arqs(uuid)]
    assert [arq["state"] for arq in arqs] == ["Bound"] * 8
    made = set().union(*map(servers.stack.cantle.mediated_devices, HOSTS))
    assert made == {arq["attach_handle_uuid"] for arq in arqs}


def test_a_server_gets_a_whole_card_and_gives_it_back(servers: Servers) -> None:
    uuid = servers.boot("whole-card", "whole")
    (arq,) = servers.arqs(uuid)
    host = servers.show(uuid)["OS-EXT-SRV-ATTR:host"]
    assert (arq["state"], arq["hostname"], arq["attach_handle_type"]) == ("Bound", host, "PCI")
    assert servers.allocation(uuid) == {f"{host}_{M40}": {"PGPU": 1}}
    assert servers.stack.cantle.driver(host, M40) == "vfio-pci"
    servers.delete(uuid)
    servers.assert_nothing_is_left()
