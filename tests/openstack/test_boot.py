"""A server with an accelerator, from its boot to its end."""

from __future__ import annotations

from tests.openstack.servers import M40, T4, Servers


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


def test_a_server_gets_a_whole_card_and_gives_it_back(servers: Servers) -> None:
    uuid = servers.boot("whole-card", "whole")
    (arq,) = servers.arqs(uuid)
    host = servers.show(uuid)["OS-EXT-SRV-ATTR:host"]
    assert (arq["state"], arq["hostname"], arq["attach_handle_type"]) == ("Bound", host, "PCI")
    assert servers.allocation(uuid) == {f"{host}_{M40}": {"PGPU": 1}}
    assert servers.stack.cantle.driver(host, M40) == "vfio-pci"
    servers.delete(uuid)
    servers.assert_nothing_is_left()
