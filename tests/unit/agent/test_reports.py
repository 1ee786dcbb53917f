"""A host that stays as it is costs its server no report a minute; whatever may have changed on either side is told at once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cantle.agent.reports import AGAIN, Reports
from cantle.errors import Unavailable
from cantle.wire.inventory import InventoryAnswer, InventoryReport


class Server:
    """Takes reports, and has a clock that the host shares."""

    def __init__(self) -> None:
        self.taken: list[InventoryReport] = []
        self.changed = False
        self.away = False
        self.now = 1000.0

    def take(self, report: InventoryReport) -> InventoryAnswer:
        """One report."""
        if self.away:
            raise Unavailable("server-away", "nobody there")
        self.taken.append(report)
        return InventoryAnswer(1, self.changed)


class Host:
    """Looks at itself again and again."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.reports = Reports(server.take, lambda: server.now)
        self.digest = "d"
        self.ahead = 0.0

    def looks(self, seconds: float = 60.0) -> int:
        """After so long; how many reports it sends."""
        self.server.now += seconds
        before = len(self.server.taken)
        report = InventoryReport("start", self.digest, (), clock=self.server.now + self.ahead)
        self.reports.tell(report)
        return len(self.server.taken) - before


@pytest.fixture
def host() -> Host:
    """One whose report was taken in."""
    made = Host(Server())
    assert made.looks() == 1
    return made


def test_the_same_report_is_sent_once_and_again_after_five_minutes(host: Host) -> None:
    assert [host.looks() for _ in range(5)] == [0, 0, 0, 0, 1]
    assert AGAIN == 300


def card_appears(host: Host) -> None:
    """The host is another than before."""
    host.digest = "e"


def clock_jumps(host: Host) -> None:
    """The host's time is wrong by an hour from now on."""
    host.ahead = 3600.0


def in_doubt(host: Host) -> None:
    """A call failed, work was done, or somebody waits in the host's place."""
    host.reports.doubt()


@pytest.mark.parametrize("happens", [card_appears, clock_jumps, in_doubt])
def test_what_is_news_is_told_with_the_next_look_and_once(host: Host, happens: Callable[[Host], None]) -> None:
    assert host.looks(1) == 0
    happens(host)
    assert [host.looks(1), host.looks(1)] == [1, 0]


def test_what_the_server_did_not_hear_is_told_with_the_next_look(host: Host) -> None:
    host.digest, host.server.away = "e", True
    with pytest.raises(Unavailable):
        host.looks()
    host.server.away = False
    assert [host.looks(), host.looks()] == [1, 0]
    host.digest = "d"
    assert host.looks() == 1, "also what it was told before that"


def test_what_the_server_could_not_take_in_whole_is_told_until_it_can(host: Host) -> None:
    """While something of a swapped card is lent, its report is changed each time: the server remembers no digest of it."""
    host.digest, host.server.changed = "e", True
    assert [host.looks() for _ in range(3)] == [1, 1, 1]
    host.server.changed = False
    assert [host.looks(), host.looks()] == [1, 0]
    assert host.server.taken[-1].digest == "e"


def test_a_report_whose_answer_was_lost_may_have_been_taken_in_so_what_was_before_is_told_again(host: Host) -> None:
    """A card that appears and goes again while the network is bad was still there for the server."""
    host.server.away = True
    host.digest = "e"
    with pytest.raises(Unavailable):
        host.looks()
    host.server.away = False
    host.digest = "d"
    assert host.looks() == 1
