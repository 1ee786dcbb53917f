"""What the keeper writes to its log while Placement, or one host, is in trouble: once when it begins, once when it is over."""

from __future__ import annotations

import logging

import pytest
from tests.placement_service import Fault, Timeout
from tests.unit.engine.cloud import Host, t4
from tests.unit.placement.cloud import Cloud

from cantle.keeper.placement import Publisher


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Warnings since it was last asked."""
    words = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    caplog.clear()
    return words


def round_of(keeper: Publisher, cloud: Cloud) -> None:
    """A round in which every host is due."""
    cloud.time_passes()
    keeper.round()


@pytest.fixture
def hosts(cloud: Cloud) -> list[Host]:
    """Three hosts with a card each."""
    some = [cloud.host, *(Host(cloud.db, name) for name in ("compute-2", "compute-3"))]
    cloud.compute_node("compute-2")
    cloud.compute_node("compute-3")
    for number, one in enumerate(some):
        one.report(t4(4, address=f"0000:a{number}:00.0"))
    return some


@pytest.mark.parametrize("fault", [500, 401, Timeout()], ids=str)
@pytest.mark.usefixtures("hosts")
def test_a_placement_that_is_away_is_told_once_for_all_hosts_and_once_when_it_is_back(
    cloud: Cloud, caplog: pytest.LogCaptureFixture, fault: Fault
) -> None:
    """Each host was warned of at each attempt, all night, and that Placement was back was never said."""
    keeper = cloud.keeper()
    cloud.placement.faults.always = fault
    for _ in range(3):
        round_of(keeper, cloud)
    (words,) = told(caplog)
    assert words.startswith("placement: placement-away: ")
    assert {state.attempts for state in cloud.states()} == {3}, "it was tried all the same"
    cloud.placement.faults.clear()
    for _ in range(2):
        round_of(keeper, cloud)
    assert told(caplog) == ["placement: Placement answers again; what waits for it is written within 5 minutes"]


@pytest.mark.usefixtures("hosts")
def test_another_trouble_on_the_way_to_placement_is_told_too(cloud: Cloud, caplog: pytest.LogCaptureFixture) -> None:
    keeper = cloud.keeper()
    for fault in (503, 503, 401, 401):
        cloud.placement.faults.always = fault
        round_of(keeper, cloud)
    first, second = told(caplog)
    assert "503" in first
    assert "401" in second


def test_the_trouble_of_one_host_is_told_once_and_its_end_too(
    cloud: Cloud, caplog: pytest.LogCaptureFixture, hosts: list[Host]
) -> None:
    keeper = cloud.keeper()
    cloud.placement.call("DELETE", f"/resource_providers/{cloud.nodes['compute-2']}")
    for _ in range(3):
        round_of(keeper, cloud)
    (words,) = told(caplog)
    assert words.startswith("placement: host compute-2: host-not-in-placement: ")
    cloud.placement.faults.always = 503
    round_of(keeper, cloud)
    cloud.placement.faults.clear()
    round_of(keeper, cloud)
    away, back = told(caplog)
    assert "placement-away" in away
    assert "answers again" in back
    cloud.compute_node("compute-2")
    for _ in range(2):
        round_of(keeper, cloud)
    assert told(caplog) == ["placement: host compute-2 is published again"]
    assert len(cloud.shown("compute-2")) == len(hosts[1].devices)


@pytest.mark.usefixtures("hosts")
def test_hosts_that_are_well_do_not_end_a_trouble_that_only_writes_have(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    """A role for reading alone: what is read answers, what is written does not, over and over."""
    keeper = cloud.keeper()
    round_of(keeper, cloud)
    cloud.host.report(t4(8, address="0000:a0:00.0"))

    def refused(method: str, _path: str) -> None:
        faults = cloud.placement.faults
        faults.always = None if method == "GET" else 403

    cloud.placement.faults.before = refused
    for _ in range(3):
        round_of(keeper, cloud)
    (words,) = told(caplog)
    assert "needs the role service" in words


@pytest.mark.usefixtures("hosts")
def test_what_another_keeper_brought_in_order_is_not_kept_for_a_later_silence(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    """Else a second outage, in the same words, would not be told at all."""
    keeper, another = cloud.keeper(), cloud.keeper()
    cloud.placement.faults.always = 503
    round_of(keeper, cloud)
    assert len(told(caplog)) == 1
    cloud.placement.faults.clear()
    round_of(another, cloud)
    keeper.round()
    assert len(told(caplog)) == 1
    cloud.placement.faults.always = 503
    round_of(keeper, cloud)
    assert len(told(caplog)) == 1
