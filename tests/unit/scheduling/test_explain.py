"""Why not: true reasons, counted."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from msgspec.structs import replace as changed
from tests.unit.scheduling.offers import group, kind, of_hosts, offer, requests

from cantle.model.explanation import Explanation
from cantle.model.numa import NumaPolicy
from cantle.model.offer import Offer
from cantle.model.request import Request, RequestGroup
from cantle.model.requirement import Requirement
from cantle.scheduling.choose import choose
from cantle.scheduling.explain import Explainer, Why, broken_units, of_card, of_host


def explained(request: Request, there: list[Offer]) -> Explanation:
    """The explanation of what is there."""
    explainer = Explainer(request)
    hosts: dict[str, list[Offer]] = defaultdict(list)
    for one in there:
        hosts[one.hostname].append(one)
    for name in sorted(hosts):
        explainer.add(name, hosts[name])
    return explainer.result()


def mended(why: Why, each: RequestGroup, one: Offer, there: list[Offer]) -> tuple[RequestGroup, Offer, list[Offer]]:
    """Group, card and cards as they would be without that very reason."""
    (resource_class, amount) = each.amounts[0]
    labels = dict(one.kind.labels)
    match why.code:
        case "other-class":
            one = changed(one, kind=kind(resource_class, tuple(one.kind.traits), labels))
        case "lacks-trait":
            one = changed(one, kind=replace(one.kind, traits=one.kind.traits | each.required))
        case "forbidden-trait":
            one = changed(one, kind=replace(one.kind, traits=one.kind.traits - each.forbidden))
        case "other-label":
            one = changed(one, kind=replace(one.kind, labels={**labels, "arch": "fermi"}))
        case "host-down":
            one = changed(one, out_of_service=None)
        case "all-lent" | "offers-nothing" | "too-few-free":
            one = changed(one, free=amount, used=0)
        case "too-few-per-guest":
            one = changed(one, kind=replace(one.kind, labels={**labels, "units_per_guest": str(amount)}))
        case "unit-not-whole":
            there = [changed(other, out_of_service=None, used=0, free=max(1, other.free)) for other in there]
            one = changed(one, used=0)
        case "numa-unknown":
            one = changed(one, numa_node=0)
        case _:
            raise AssertionError(why)
    return each, one, [one if other.deployable_id == one.deployable_id else other for other in there]


@settings(max_examples=400, deadline=None)
@given(requests, of_hosts)
def test_a_cards_reason_is_true_take_it_away_and_the_answer_is_another(request: Request, there: list[Offer]) -> None:
    for each in request.groups:
        for one in there:
            here = [other for other in there if other.hostname == one.hostname]
            told = set()
            card, why = one, of_card(each, one, broken_units(here))
            while why is not None:
                assert why.code not in told or why.code == "lacks-trait", "a reason taken away does not come back"
                told.add(why.code)
                _, card, here = mended(why, each, card, here)
                again = of_card(each, card, broken_units(here))
                assert again != why
                why = again
            alone = replace(each, together=True) if each.together else replace(each, amounts=((each.amounts[0][0], 1),))
            assert choose(Request((alone,)), here if card.unit else [card]) is not None, "nothing was held back"


@settings(max_examples=300, deadline=None)
@given(requests, of_hosts)
def test_hosts_fit_exactly_when_no_reason_is_told(request: Request, there: list[Offer]) -> None:
    found = explained(request, there)
    assert (found.fit_count > 0) == (choose(request, there) is not None)
    if not found.fit_count and there:
        assert found.together or any(view.suitable == 0 for view in found.groups) or len(found.groups) > 1
    for view in found.groups:
        assert view.suitable + sum(reason.cards for reason in view.reasons) == len(there), "every card counts once"


@settings(max_examples=300, deadline=None)
@given(requests, of_hosts)
def test_a_hosts_reason_is_true_without_it_the_host_fits_or_has_another(request: Request, there: list[Offer]) -> None:
    here = [one for one in there if one.hostname == "h1"]
    why = of_host(request, here)
    if why is None:
        return
    assert choose(request, here) is None
    if why.code == "numa-apart":
        assert (
            choose(replace(request, groups=tuple(replace(one, numa=None) for one in request.groups)), here) is not None
        )
    if why.code == "not-isolated":
        assert of_host(replace(request, isolate=False), here) != why
    if why.code == "too-few-together":
        plenty = [changed(one, free=one.free and 99) for one in here]
        assert of_host(request, plenty) != why


def test_reasons_are_grouped_counted_and_come_with_examples_and_a_mend() -> None:
    there = [offer(number, resource_class="PGPU", free=0, used=1) for number in range(1, 6)]
    there += [offer(9, host="h2"), offer(8, host="h2", resource_class="PGPU", out="host-down")]
    (view,) = explained(Request((group(1, "PGPU"),)), there).groups
    assert [(reason.code, reason.cards, reason.hosts) for reason in view.reasons] == [
        ("all-lent", 5, 1),
        ("host-down", 1, 1),
        ("other-class", 1, 1),
    ]
    assert view.reasons[0].examples == ("h1 0000:01:00.0", "h1 0000:02:00.0", "h1 0000:03:00.0")
    assert all(reason.mend for reason in view.reasons)


@pytest.mark.parametrize(
    ("request_", "there", "code"),
    [
        (Request((group(3, apart=True),)), [offer(1, free=9), offer(2)], "too-few-apart"),
        (Request((group(3, together=False),)), [offer(1), offer(2)], "too-few-together"),
        (Request((group(1), group(1)), isolate=True), [offer(1, free=9)], "not-isolated"),
        (Request((group(2), group(2))), [offer(1, free=3), offer(2)], "not-together"),
        (Request((group(1), group(1))), [offer(1)], "too-few-together"),
        (Request((group(1), group(1))), [offer(1, free=9, labels={"units_per_guest": "1"})], "too-few-per-guest"),
        (
            Request((group(2, together=False, numa=NumaPolicy.REQUIRED),)),
            [offer(1, node=0), offer(2, node=1)],
            "numa-apart",
        ),
    ],
)
def test_why_cards_do_not_do_together(request_: Request, there: list[Offer], code: str) -> None:
    (reason,) = explained(request_, there).together
    assert (reason.code, reason.cards, reason.hosts) == (code, 0, 1)


def test_what_is_asked_for_64_times_is_told_once_and_not_in_64_equal_groups() -> None:
    found = explained(Request((group(1),)).times(64), [offer(1, free=4), offer(2, resource_class="PGPU")])
    (view,) = found.groups
    assert (view.units, view.suitable, [reason.code for reason in view.reasons]) == (64, 1, ["other-class"])
    assert found.summary == "1 host (h1): has 4 for 1 VGPU, 64 wanted"


def test_the_summary_is_one_sentence_with_the_commonest_reasons() -> None:
    label = Requirement("gpu_arch", "s== fermi")
    there = [offer(number, labels={"gpu_arch": "kepler"}) for number in (1, 2)] + [offer(3)]
    found = explained(Request((group(1, labels=(label,)),)), there)
    assert found.summary == (
        "1 VGPU: 2 cards: label gpu_arch is 'kepler', wanted is 's== fermi'; "
        "1 card (h1 0000:03:00.0): has no label gpu_arch, wanted is 's== fermi'"
    )
    assert explained(Request((group(1),)), there).summary == "1 host can serve it now: h1"
    assert explained(Request((group(1),)), []).summary == "no host has reported an accelerator"


def test_cards_that_are_only_counted_are_counted_in() -> None:
    explainer = Explainer(Request((group(1, "PGPU"),)))
    explainer.add("h1", [offer(1, resource_class="PGPU", free=0, used=1)])
    explainer.add_kind(kind("VGPU"), {"h2": 6, "h4": 2, "h5": 4})
    explainer.add_mode("unassignable", 4, 4, "h3 0000:03:00.0")
    (view,) = explainer.result("2026-12-24T18:00:00+00:00").groups
    assert [(reason.code, reason.cards, reason.hosts, reason.examples) for reason in view.reasons] == [
        ("other-class", 12, 3, ("h2",)),
        ("offers-nothing", 4, 4, ("h3 0000:03:00.0",)),
        ("all-lent", 1, 1, ("h1 0000:01:00.0",)),
    ]
    assert "2026-12-24" in view.reasons[2].mend


def test_who_asks_one_card_for_more_than_it_ever_has_is_told_how_to_ask_several() -> None:
    (view,) = explained(Request((group(5, "PGPU"),)), [offer(1, resource_class="PGPU")]).groups
    (reason,) = view.reasons
    assert (reason.code, reason.what) == ("too-few-free", "has 1 unit in all, 5 of one card wanted")
    assert "--count" in reason.mend


def test_a_host_with_two_kinds_of_wrong_cards_is_one_host() -> None:
    """A cloud of three hosts was told of six."""
    explainer = Explainer(Request((group(1, labels=(Requirement("arch", "s== fermi"),)),)))
    explainer.add("h1", [offer(1)])
    explainer.add_kind(kind("VGPU", product="17fd"), {"h1": 1, "h2": 2})
    explainer.add_kind(kind("VGPU", product="20b0"), {"h2": 1})
    ((reason,),) = (view.reasons for view in explainer.result().groups)
    assert (reason.code, reason.cards, reason.hosts) == ("other-label", 5, 2)
    assert reason.examples == ("h1 0000:01:00.0", "h1", "h2")


def test_a_reason_of_several_cards_is_said_of_several() -> None:
    there = [offer(number, free=0, used=1) for number in (1, 2)] + [
        offer(3, resource_class="PGPU"),
        offer(4, resource_class="PGPU"),
    ]
    assert explained(Request((group(1),)), there).summary == (
        "1 VGPU: 2 cards: are lent completely; 2 cards: are passthrough and offer PGPU, not VGPU"
    )


def test_a_card_that_gives_one_guest_fewer_than_it_has_free_says_so() -> None:
    there = [offer(1, free=4, labels={"units_per_guest": "1"})]
    (view,) = explained(Request((group(2),)), there).groups
    (reason,) = view.reasons
    assert (reason.code, reason.what) == (
        "too-few-per-guest",
        "gives one guest 1 of its units at most, 2 of one card wanted",
    )
    assert "units_per_guest" in reason.mend
