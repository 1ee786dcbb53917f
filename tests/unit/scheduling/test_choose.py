"""The choice of a host: never wrong, never missed, always the same."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed
from tests.unit.scheduling.offers import group, of_hosts, of_one_host, offer, requests

from cantle.model.kind import mismatch
from cantle.model.numa import NumaPolicy, allows
from cantle.model.offer import Offer
from cantle.model.request import Packing, Request, of_profile
from cantle.scheduling.choose import choose
from cantle.scheduling.count import how_many
from cantle.scheduling.fit import asks, fit, usable


def near(request: Request, chosen: list[tuple[int, Offer]]) -> bool:
    """Whether there is a node to which all chosen cards are as near as their groups want."""
    nodes: list[list[int]] = [[one.numa_node] for _, one in chosen if one.numa_node is not None] or [[]]
    return any(
        all(
            allows(request.groups[at].numa or NumaPolicy.PREFERRED, one.numa_node, node, one.sockets)
            for at, one in chosen
        )
        for node in [*nodes, [0], [1]]
    )


def sound(request: Request, taken: list[tuple[int, Offer, int]]) -> bool:
    """Whether taking this serves the request: by every rule, whatever found it."""
    used: Counter[int] = Counter()
    for _, one, amount in taken:
        used[one.deployable_id] += amount
    if any(used[one.deployable_id] > one.room or one.out_of_service is not None for _, one, _ in taken):
        return False
    if any(mismatch(request.groups[at], one.kind) is not None for at, one, _ in taken):
        return False
    wanted = asks(request)
    for (left, first), (right, second) in itertools.combinations(zip(wanted, taken, strict=True), 2):
        if left.apart & right.apart and first[1].deployable_id == second[1].deployable_id:
            return False
    return near(request, [(at, one) for at, one, _ in taken])


def exists(request: Request, there: list[Offer]) -> bool:
    """Whether something serves the request, by trying everything."""
    wanted = asks(request)
    return any(
        sound(request, [(ask.group, one, ask.amount) for ask, one in zip(wanted, chosen, strict=True)])
        for chosen in itertools.product(usable(there), repeat=len(wanted))
    )


@settings(max_examples=300, deadline=None)
@given(requests.filter(lambda one: len(asks(one)) <= 5), of_one_host)
def test_a_fit_is_found_exactly_when_there_is_one_and_it_is_sound(request: Request, there: list[Offer]) -> None:
    found = fit(request, there)
    assert (found is not None) == exists(request, there)
    if found is not None:
        asked = [one for one in found if not one.companion]
        assert sound(request, [(one.group, one.offer, one.amount) for one in asked])


@settings(max_examples=200, deadline=None)
@given(requests, of_hosts)
def test_all_or_nothing_on_one_host_never_more_than_asked_and_no_unit_twice(
    request: Request, there: list[Offer]
) -> None:
    choice = choose(request, there)
    if choice is None:
        return
    assert {one.offer.hostname for one in choice.taken} == {choice.hostname}
    asked: Counter[int] = Counter()
    used: Counter[int] = Counter()
    for one in choice.taken:
        used[one.offer.deployable_id] += one.amount
        if not one.companion:
            asked[one.group] += one.amount
    assert [asked[position] for position in range(len(request.groups))] == [each.units for each in request.groups]
    assert all(used[one.offer.deployable_id] <= one.offer.free for one in choice.taken)


@settings(max_examples=200, deadline=None)
@given(requests, of_hosts)
def test_a_unit_of_cards_is_taken_as_a_whole_or_not_at_all(request: Request, there: list[Offer]) -> None:
    choice = choose(request, there)
    taken: Counter[int] = Counter()
    for one in choice.taken if choice is not None else ():
        taken[one.offer.deployable_id] += one.amount
    members: dict[str, list[Offer]] = defaultdict(list)
    for card in there:
        if choice is not None and card.hostname == choice.hostname and card.unit is not None:
            members[card.unit].append(card)
    for of_unit in members.values():
        if any(taken[card.deployable_id] for card in of_unit):
            assert all(taken[card.deployable_id] for card in of_unit)
            assert all(card.used == 0 and card.out_of_service is None for card in of_unit)


@settings(max_examples=150, deadline=None)
@given(requests, of_hosts, st.integers())
def test_the_order_in_which_offers_come_does_not_matter(request: Request, there: list[Offer], seed: int) -> None:
    shuffled = list(there)
    random.Random(seed).shuffle(shuffled)  # noqa: S311
    assert choose(request, there) == choose(request, shuffled)


def profile(*groups: dict[str, str]) -> Request:
    """A request of a device profile."""
    return of_profile(list(groups))


def addresses(request: Request, there: list[Offer], nodes: tuple[int, ...] = ()) -> list[int] | None:
    """Numbers of the cards that are taken."""
    choice = choose(request, there, nodes=nodes)
    return None if choice is None else [one.offer.deployable_id for one in choice.taken]


def test_sixteen_equal_cards_that_are_one_too_few_are_refused_quickly() -> None:
    """Placement's search takes seconds to minutes for this (design, *measured when choosing*)."""
    needs = profile(*[{"resources:PGPU": "1"}] * 17)
    cards = [offer(number, resource_class="PGPU") for number in range(16)]
    assert fit(needs, cards) is None
    assert fit(replace(needs, groups=needs.groups[:16]), cards) is not None


def test_a_specific_card_is_left_to_the_group_that_needs_it() -> None:
    needs = profile({"resources:PGPU": "1"}, {"resources:PGPU": "1", "trait:CUSTOM_A": "required"})
    plain, special = offer(2, resource_class="PGPU"), offer(1, resource_class="PGPU", traits=("CUSTOM_A",))
    assert addresses(needs, [special, plain]) == [2, 1]


def test_sixty_four_different_groups_on_sixteen_different_cards_are_refused_without_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Anybody who may ask for a lease could have the server think for seconds, of each host with such cards."""
    traits = [f"CUSTOM_{number}" for number in range(16)]
    there = [offer(number, resource_class="PGPU", traits=(trait,)) for number, trait in enumerate(traits)]
    needs = Request(tuple(group(1, "PGPU", forbidden=(traits[number % 16],)) for number in range(64)))
    # A search has no limit to compare its steps with, so that one that is begun fails.
    monkeypatch.setattr("cantle.scheduling.fit.MAX_STEPS", None)
    assert addresses(needs, there) is None
    with pytest.raises(TypeError):
        addresses(replace(needs, groups=needs.groups[:1]), there)


def test_a_thousand_units_are_found() -> None:
    """The server failed with an error of its own: it had no frames left."""
    there = [offer(number, free=128, node=number % 2) for number in range(16)]
    found = fit(Request((group(1000, together=False),)), there)
    assert found is not None
    assert sum(one.amount for one in found) == 1000
    assert max(Counter(one.offer.deployable_id for one in found).values()) <= 128


def test_groups_of_one_card_are_packed_where_spreading_would_fail() -> None:
    needs = profile({"resources:VGPU": "1"}, {"resources:VGPU": "3"})
    assert addresses(needs, [offer(1, free=3, used=1), offer(2, free=1)]) == [2, 1]


def test_slices_are_packed_on_the_fullest_host_and_card_so_that_whole_cards_stay_free() -> None:
    one = profile({"resources:VGPU": "1"})
    there = [
        offer(1, host="a", free=4),
        offer(2, host="b", free=4),
        offer(3, host="b", free=1, used=3),
        offer(4, host="c", free=3),
    ]
    assert addresses(one, there) == [4]
    assert addresses(one, there[:3]) == [1]
    assert addresses(one, there[1:3]) == [3]


@pytest.mark.parametrize("policy", [None, *NumaPolicy])
@pytest.mark.parametrize("units", [1, 2])
def test_a_card_that_is_cut_already_is_taken_also_if_it_is_on_the_second_node(
    policy: NumaPolicy | None, units: int
) -> None:
    """The empty card of the first node was opened, and was no whole card any more."""
    sockets = {0: 0, 1: 1}
    there = [offer(1, free=4, node=0, sockets=sockets), offer(2, free=2, used=2, node=1, sockets=sockets)]
    assert addresses(Request((group(1, numa=policy),) * units), there) == [2] * units


def test_whole_cards_are_spread_over_the_emptiest_hosts() -> None:
    one = profile({"resources:PGPU": "1"})
    there = [offer(number, host=host, resource_class="PGPU") for number, host in enumerate("abb")]
    assert addresses(one, there) == [1]
    packed = replace(one, groups=(replace(one.groups[0], packing=Packing.PACK),))
    assert addresses(packed, there) == [0]


def test_what_else_a_host_has_does_not_make_it_fuller_or_emptier() -> None:
    there = [offer(1, host="a", free=3), offer(2, host="b", free=2), offer(3, host="b", resource_class="PGPU", free=9)]
    assert addresses(profile({"resources:VGPU": "1"}), there) == [2]


def test_equal_hosts_are_taken_by_name_and_equal_cards_by_address() -> None:
    there = [offer(4, host="b"), offer(3, host="a"), offer(2, host="b"), offer(1, host="a")]
    assert addresses(profile({"resources:VGPU": "1"}), there) == [1]


@pytest.mark.parametrize(
    ("policy", "nodes", "taken"),
    [
        pytest.param("required", [0, 0], [1, 2], id="required: both on one node"),
        pytest.param("required", [0, 1], None, id="required: not on two"),
        pytest.param("required", [0, None], None, id="required: an unknown node is no node 0"),
        pytest.param("required", [None, None], None, id="required: two unknown nodes may be two"),
        pytest.param("legacy", [0, None], [1, 2], id="legacy: or unknown"),
        pytest.param("legacy", [None, None], [1, 2], id="legacy: both unknown"),
        pytest.param("legacy", [0, 1], None, id="legacy: not on two"),
        pytest.param("preferred", [0, 1], [1, 2], id="preferred: any"),
        pytest.param("socket", [0, 1], None, id="socket: a host that does not say is as required"),
        pytest.param("socket", [1, 1], [1, 2], id="socket: one node is one socket"),
    ],
)
def test_numa(policy: str, nodes: list[int | None], taken: list[int] | None) -> None:
    needs = profile(*[{"resources:PGPU": "1", "accel:numa_policy": policy}] * 2)
    cards = [offer(number, resource_class="PGPU", node=node) for number, node in enumerate(nodes, 1)]
    assert addresses(needs, cards) == taken


def test_cards_near_each_other_are_taken_though_nobody_asked() -> None:
    needs = profile(*[{"resources:PGPU": "1"}] * 2)
    cards = [offer(number, resource_class="PGPU", node=node) for number, node in ((1, 0), (2, 1), (3, 1))]
    assert addresses(needs, cards) == [2, 3]


def test_the_guests_own_nodes_decide_if_they_are_known() -> None:
    needs = profile({"resources:PGPU": "1", "accel:numa_policy": "required"})
    cards = [offer(number, resource_class="PGPU", node=node) for number, node in ((1, 0), (2, 1))]
    assert addresses(needs, cards, (1,)) == [2]
    assert addresses(needs, cards, (2,)) is None
    assert addresses(profile({"resources:PGPU": "1"}), cards, (1,)) == [2]


def test_preferred_models_first_whatever_the_packing_and_others_else() -> None:
    needs = profile({"resources:VGPU": "1", "accel:prefer": "CUSTOM_H100, CUSTOM_A100"})
    fast, good = offer(1, host="a", free=9, traits=("CUSTOM_H100",)), offer(2, host="b", traits=("CUSTOM_A100",))
    other = offer(3, host="c")
    assert addresses(needs, [other, good, fast]) == [1]
    assert addresses(needs, [other, good]) == [2]
    assert addresses(needs, [other]) == [3]


def test_units_of_a_group_come_from_different_cards_if_asked() -> None:
    needs = profile({"resources:VGPU": "2", "accel:anti_affinity": "card"})
    assert addresses(needs, [offer(1, free=4)]) is None
    assert addresses(needs, [offer(1, free=4), offer(2, free=4)]) == [1, 2]


def test_isolated_groups_come_from_different_cards() -> None:
    needs = profile(*[{"resources:VGPU": "1"}] * 2)
    assert addresses(needs, [offer(1, free=4)]) == [1, 1]
    assert addresses(replace(needs, isolate=True), [offer(1, free=4)]) is None
    assert addresses(replace(needs, isolate=True), [offer(1, free=4), offer(2)]) == [2, 1]


def test_isolated_groups_are_served_whichever_card_is_tried_first() -> None:
    """The larger group is placed first, on the first card, which the other group needs: what was tried leaves no trace."""
    cards = [offer(1, traits=("CUSTOM_A",), free=2), offer(2, free=2)]
    found = fit(Request((group(2), group(1, required=("CUSTOM_A",))), isolate=True), cards)
    assert [one.offer.deployable_id for one in found or ()] == [2, 1]


def test_larger_groups_are_placed_first_so_that_less_is_left_in_pieces() -> None:
    """The other way round one unit would be left on each card."""
    cards = [offer(1, free=2), offer(2, free=3)]
    found = fit(Request((group(1), group(2))), cards)
    assert [one.offer.deployable_id for one in found or ()] == [2, 1]


def test_a_group_whose_units_are_apart_is_isolated_from_the_others_too() -> None:
    cards = [offer(number, free=2) for number in (1, 2, 3)]
    asked = Request((group(2, apart=True), group(1)), isolate=True)
    assert fit(asked, cards[:2]) is None
    assert fit(replace(asked, isolate=False), cards[:2]) is not None
    assert len({one.offer.deployable_id for one in fit(asked, cards) or ()}) == 3


def test_a_card_takes_its_companions_with_it() -> None:
    needs = profile({"resources:PGPU": "1"})
    pair = [
        offer(1, resource_class="PGPU", labels={"unit": "a"}),
        offer(2, resource_class="CUSTOM_NIC", labels={"unit": "a"}),
    ]
    choice = choose(needs, pair)
    assert choice is not None
    assert [(one.offer.deployable_id, one.companion) for one in choice.taken] == [(1, False), (2, True)]
    assert choose(needs, [pair[0], changed(pair[1], free=0, used=1)]) is None


def test_several_classes_of_one_card_are_more_than_a_card_has() -> None:
    assert (
        addresses(profile({"resources:VGPU": "1", "resources:PGPU": "1"}), [offer(1), offer(2, resource_class="PGPU")])
        is None
    )
    assert group(2).units == 2


def test_a_guest_gets_one_unit_of_a_card_unless_its_type_allows_more() -> None:
    one, two = (offer(number, free=4, labels={"units_per_guest": "1"}) for number in (1, 2))
    several = offer(3, free=4, labels={"units_per_guest": "2"})
    pair, apart = {"resources:VGPU": "2"}, {"resources:VGPU": "1"}
    assert fit(profile(pair), [one, two]) is None
    assert fit(profile(apart, apart, apart), [one, two]) is None
    assert [taken.offer for taken in fit(profile(apart, apart), [one, two]) or ()] == [one, two]
    assert [taken.offer for taken in fit(profile(pair), [one, several]) or ()] == [several]
    assert fit(profile(apart).times(3), [several]) is None
    assert how_many(profile(apart), [one]) == 4, "each for another guest"
