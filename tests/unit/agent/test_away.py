"""How long an agent leaves its server alone."""

from __future__ import annotations

from collections import Counter

from cantle.agent.away import Away, Pause
from cantle.agent.backoff import Backoff
from cantle.errors import CantleError, Forbidden, Unavailable


def test_the_waits_double_up_to_the_longest_and_start_again_after_an_answer() -> None:
    backoff = Backoff(1.0, 10.0, spread=lambda: 1.0)
    assert [backoff.next() for _ in range(6)] == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert 30 <= backoff.next(at_least=30) <= 31
    backoff.reset()
    assert backoff.next() == 1.0


def test_the_waits_are_spread_over_their_upper_half() -> None:
    assert Backoff(1.0, 10.0, spread=lambda: 0.0).next() == 0.5


def _grown(error: CantleError) -> list[Pause]:
    away = Away(lambda: 0.0, 60.0)
    return [away.failed(error) for _ in range(12)]


def test_news_shorten_a_long_pause_but_none_that_the_server_asked_for_and_none_after_a_refusal() -> None:
    gone = _grown(Unavailable("server-away", "x"))
    assert all(one.with_news <= one.seconds for one in gone)
    assert all(one.seconds >= 30 and 5 <= one.with_news <= 10 for one in gone[-4:])
    busy = _grown(Unavailable("too-busy", "x", retry_after=20))
    assert all(20 <= one.with_news <= 21 for one in busy)
    refused = _grown(Forbidden("token-unknown", "x"))
    assert all(one.with_news == one.seconds for one in refused)


def test_what_stays_so_is_said_with_each_longer_pause_and_then_once_an_hour_and_a_new_reason_at_once() -> None:
    now = [0.0]
    away = Away(lambda: now[0], 60.0)
    gone, refused = Unavailable("server-away", "no answer"), Forbidden("token-not-valid", "it is not valid")
    says = [away.failed(gone).says for _ in range(12)]
    assert [bool(one) for one in says] == [True] * 8 + [False] * 4
    assert [", which is said once an hour" in one for one in says[:8]] == [False] * 7 + [True]
    assert "it is not valid (token-not-valid)" in away.failed(refused).says
    assert away.failed(refused).says == ""
    now[0] = 3600.0
    assert away.failed(refused).says != ""
    assert away.trouble == "token-not-valid"
    away.is_back()
    assert away.trouble is None
    assert "next try in" in away.failed(refused).says


def test_two_thousand_agents_that_all_have_news_do_not_run_their_server_down() -> None:
    """Once their pauses have grown. Without news 2,000 agents try 45 times a second."""
    tries: Counter[int] = Counter()
    for agent in range(2000):
        away, now = Away(lambda: 0.0, 60.0), agent / 2000
        while now < 60:
            tries[int(now)] += 1
            now += away.failed(Unavailable("server-away", "x")).with_news
    assert max(tries[second] for second in range(30, 60)) < 400
