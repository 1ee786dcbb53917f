"""A host that is down with a server on it: Nova builds the server on another one, or deletes it; and the host comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.openstack.servers import T4, Servers
from tests.openstack.stack import HOSTS
from tests.real.processes import wait_until


@pytest.fixture
def servers_whose_hosts_come_back(servers: Servers) -> Iterator[Servers]:
    """Whatever a test made of them, computes and agents run afterwards."""
    yield servers
    for host in HOSTS:
        come_back(servers, host)


def go_down(servers: Servers, host: str) -> None:
    """The machine dies: its compute and its agent are gone, and an operator says so to Nova."""
    servers.stack.nova.kill(host)
    servers.stack.cantle.kill(host)
    servers.force_down(host, True)


def come_back(servers: Servers, host: str) -> None:
    """It runs again."""
    servers.stack.nova.start(host)
    servers.stack.cantle.start(host)
    servers.force_down(host, False)
    servers.wait_for_computes()


def test_an_evacuated_server_gets_a_slice_of_the_other_host_and_the_first_is_free_when_it_is_back(
    servers_whose_hosts_come_back: Servers,
) -> None:
    servers = servers_whose_hosts_come_back
    uuid = servers.boot("evacuated", "slice")
    (before,) = servers.arqs(uuid)
    lost = before["hostname"]
    (other,) = set(HOSTS) - {lost}
    published = servers.published(lost)
    assert len(published) == 2, published
    go_down(servers, lost)
    servers.act(uuid, "evacuate", {}, person="admin")
    moved = servers.wait_for(uuid, "SHUTOFF", "ACTIVE", seconds=120, host=other)
    assert moved["OS-EXT-SRV-ATTR:host"] == other
    (after,) = servers.arqs(uuid)
    assert (after["state"], after["hostname"]) == ("Bound", other)
    assert servers.stack.cantle.mediated_devices(other) == {after["attach_handle_uuid"]}
    # What was on the dead host may still be in use there, for all anybody knows: it is lent to nobody.
    assert servers.stack.cantle.mediated_devices(lost) == {before["attach_handle_uuid"]}
    assert servers.unavailable(lost, "VGPU") == 1
    come_back(servers, lost)
    wait_until("the host has taken the slice back", lambda: not servers.stack.cantle.mediated_devices(lost))
    wait_until("it can be lent again", lambda: servers.unavailable(lost, "VGPU") == 0)
    wait_until("Nova has let go of it", lambda: servers.allocation(uuid) == {f"{other}_{T4}": {"VGPU": 1}})
    assert [arq["uuid"] for arq in servers.arqs(uuid)] == [after["uuid"]]
    # Nova's compute, which started anew, has left our providers below its own alone.
    wait_until("the cards are published as before", lambda: servers.published(lost) == published, seconds=60)


def test_a_server_that_is_deleted_while_its_host_is_down_is_gone_at_once_and_its_slice_free_when_the_host_is_back(
    servers_whose_hosts_come_back: Servers,
) -> None:
    servers = servers_whose_hosts_come_back
    uuid = servers.boot("orphan", "slice")
    (arq,) = servers.arqs(uuid)
    lost = arq["hostname"]
    go_down(servers, lost)
    servers.delete(uuid)
    assert servers.arqs(uuid) == []
    assert servers.allocation(uuid) == {}
    assert servers.stack.cantle.mediated_devices(lost) == {arq["attach_handle_uuid"]}
    assert servers.unavailable(lost, "VGPU") == 1
    come_back(servers, lost)
    wait_until("the host has taken the slice back", lambda: not servers.stack.cantle.mediated_devices(lost))
    wait_until("it can be lent again", lambda: servers.unavailable(lost, "VGPU") == 0)
