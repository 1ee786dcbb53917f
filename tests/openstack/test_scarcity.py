"""More is wanted than there is."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.openstack.servers import M40, Servers
from tests.openstack.stack import HOSTS

#: openstacksdk warns in its own code about what it will drop.
pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")


def test_nova_finds_no_host_when_all_cards_are_lent_and_explain_says_why(servers: Servers) -> None:
    for host in HOSTS:
        servers.boot(f"takes-{host}", "whole")
    left_out = servers.wait_for(servers.create("left-out", "whole"), "ERROR")
    assert "No valid host was found" in left_out["fault"]["message"]
    said = servers.stack.cantle.beside_the_keeper("explain", "--profile", "whole-m40", "--placement", "-o", "json")
    assert said.status == 0, said.out + said.err
    explained = json.loads(said.out)
    assert (explained["fits"], explained["hosts"]) == (False, len(HOSTS))
    (group,) = explained["groups"]
    lent, *_others = group["reasons"]
    assert (lent["code"], lent["hosts"]) == ("too-few-left", len(HOSTS))
    assert lent["examples"] == [f"{host}_{M40}" for host in HOSTS]


def test_of_two_servers_at_once_for_the_last_card_one_gets_it_and_the_other_fails_cleanly(servers: Servers) -> None:
    servers.boot("first", "whole")
    with ThreadPoolExecutor(2) as both:
        racers = list(both.map(lambda name: servers.create_by_sdk(name, "whole"), ("left", "right")))
    ended = {uuid: servers.wait_for(uuid, "ACTIVE", "ERROR") for uuid in racers}
    assert sorted(server["status"] for server in ended.values()) == ["ACTIVE", "ERROR"]
    for uuid, server in ended.items():
        if server["status"] == "ERROR":
            assert "No valid host was found" in server["fault"]["message"]
            assert servers.arqs(uuid) == []
            assert servers.allocation(uuid) == {}
        else:
            assert [arq["state"] for arq in servers.arqs(uuid)] == ["Bound"]
