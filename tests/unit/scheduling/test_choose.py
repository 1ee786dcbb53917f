"""The choice of a host: never wrong, never missed, always the same."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cantle.errors import NoCapacity
from cantle.scheduling.choose import choose
from cantle.scheduling.fit import fit
from cantle.scheduling.offer import Ask, Offer, asks, mismatch

CLASSES = ("VGPU", "PGPU")
TRAITS = ("CUSTOM_A", "CUSTOM_B")


def offer(
    number: int,
    *,
    host: str = "h1",
    resource_class: str = "VGPU",
    traits: tuple[str, ...] = (),
    used: int = 0,
    free: int = 1,
    out: str | None = None,
) -> Offer:
    """A deployable."""
    return Offer(
        deployable_id=number,
        rp_uuid=f"rp-{number}",
        host_id=sum(map(ord, host)),
        hostname=host,
        address=f"0000:{number:02x}:00.0",
        resource_class=resource_class,
        traits=frozenset(traits),
        used=used,
        free=free,
        out_of_service=out,
    )


offers = st.builds(
    offer,
    st.integers(0, 9),
    resource_class=st.sampled_from(CLASSES),
    traits=st.lists(st.sampled_from(TRAITS), unique=True).map(tuple),
    used=st.integers(0, 3),
    free=st.integers(0, 3),
    out=st.sampled_from([None, None, None, "down"]),
)
wanted = st.builds(
    lambda resource_class, amount, required, forbidden: Ask(
        0, ((resource_class, amount),), frozenset(required), frozenset(forbidden) - frozenset(required)
    ),
    st.sampled_from(CLASSES),
    st.integers(1, 3),
    st.lists(st.sampled_from(TRAITS), max_size=1),
    st.lists(st.sampled_from(TRAITS), max_size=1),
)


def exists(needs: list[Ask], there: list[Offer]) -> bool:
    """By trying everything."""
    for chosen in itertools.product(range(len(there)), repeat=len(needs)):
        taken = [0] * len(there)
        for ask, index in zip(needs, chosen, strict=True):
            taken[index] += ask.amount
        if all(
            mismatch(ask, there[index]) is None and there[index].out_of_service is None
            for ask, index in zip(needs, chosen, strict=True)
        ) and all(used <= one.free for used, one in zip(taken, there, strict=True)):
            return True
    return False


@settings(max_examples=300, deadline=None)
@given(st.lists(wanted, min_size=1, max_size=4), st.lists(offers, max_size=4, unique_by=lambda one: one.deployable_id))
def test_a_fit_is_found_exactly_when_there_is_one_and_it_is_sound(needs: list[Ask], there: list[Offer]) -> None:
    found = fit(needs, there)
    assert (found is not None) == exists(needs, there)
    if found is None:
        return
    for ask, one in zip(needs, found, strict=True):
        assert mismatch(ask, one) is None
        assert one.out_of_service is None
    for one in there:
        assert sum(ask.amount for ask, taken in zip(needs, found, strict=True) if taken is one) <= one.free


@settings(max_examples=100, deadline=None)
@given(
    st.lists(wanted, min_size=1, max_size=3),
    st.lists(offers, max_size=4, unique_by=lambda one: one.deployable_id),
    st.randoms(),
)
def test_the_order_in_which_offers_come_does_not_matter(needs: list[Ask], there: list[Offer], chance: object) -> None:
    shuffled = list(there)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert fit(needs, there) == fit(needs, shuffled)


def test_sixteen_equal_cards_that_are_one_too_few_are_refused_quickly() -> None:
    """Placement's search takes seconds to minutes for this (design, *measured when choosing*)."""
    needs = asks([{"resources:PGPU": "1"}] * 17, 1)
    assert fit(needs, [offer(number, resource_class="PGPU") for number in range(16)]) is None
    assert fit(needs[:16], [offer(number, resource_class="PGPU") for number in range(16)]) is not None


def test_a_specific_card_is_left_to_the_group_that_needs_it() -> None:
    groups = [{"resources:PGPU": "1"}, {"resources:PGPU": "1", "trait:CUSTOM_A": "required"}]
    plain, special = offer(2, resource_class="PGPU", used=0), offer(1, resource_class="PGPU", traits=("CUSTOM_A",))
    choice = choose("p", groups, 1, [special, plain])
    assert [(unit.group_id, one.deployable_id) for unit, one in choice.units] == [(0, 2), (1, 1)]


def test_groups_of_one_card_are_packed_where_spreading_would_fail() -> None:
    groups = [{"resources:VGPU": "1"}, {"resources:VGPU": "3"}]
    choice = choose("p", groups, 1, [offer(1, free=3, used=1), offer(2, free=1)])
    assert [(unit.group_id, one.deployable_id) for unit, one in choice.units] == [(0, 2), (1, 1), (1, 1), (1, 1)]


def test_the_less_used_host_is_chosen_then_the_first_by_name() -> None:
    groups = [{"resources:VGPU": "1"}]
    there = [offer(1, host="b", free=2), offer(2, host="a", free=2), offer(3, host="c", used=1, free=9)]
    assert choose("p", groups, 1, there).hostname == "a"
    assert choose("p", groups, 1, there[::2]).hostname == "b"


def test_count_asks_for_the_whole_profile_so_many_times() -> None:
    groups = [{"resources:VGPU": "2"}]
    choice = choose("p", groups, 2, [offer(1, free=2), offer(2, free=2)])
    assert [one.deployable_id for _, one in choice.units] == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("group", "there", "why"),
    [
        ({"resources:PGPU": "1"}, [offer(1)], "no PGPU"),
        ({"resources:VGPU": "2"}, [offer(1), offer(2)], "2 VGPU of one provider wanted, at most 1 free"),
        ({"resources:VGPU": "1", "trait:CUSTOM_A": "required"}, [offer(1)], "0000:01:00.0 lacks CUSTOM_A"),
        (
            {"resources:VGPU": "1", "trait:CUSTOM_A": "forbidden"},
            [offer(1, traits=("CUSTOM_A",))],
            "0000:01:00.0 has CUSTOM_A",
        ),
        ({"resources:VGPU": "1"}, [offer(1, out="0000:01:00.0 is missing")], "0000:01:00.0 is missing"),
        (
            {"resources:VGPU": "1", "resources:PGPU": "1"},
            [offer(1), offer(2, resource_class="PGPU")],
            "group 0 wants VGPU and PGPU from one provider, and a provider has one class",
        ),
    ],
)
def test_the_reason_says_what_is_wrong(group: dict[str, str], there: list[Offer], why: str) -> None:
    with pytest.raises(NoCapacity) as caught:
        choose("gold", [group], 1, there)
    assert caught.value.details["hosts"] == {"h1": why}
    assert caught.value.message == f"No host can serve profile gold now. h1: {why}."


def test_groups_that_fit_one_by_one_but_not_together() -> None:
    with pytest.raises(NoCapacity, match="h1: each group fits, but not all of them together"):
        choose("gold", [{"resources:VGPU": "1"}] * 2, 1, [offer(1)])


def test_a_message_names_few_hosts_and_the_details_at_most_a_hundred() -> None:
    there = [offer(1, host=f"h{number:04}", free=0) for number in range(300)]
    with pytest.raises(NoCapacity) as caught:
        choose("gold", [{"resources:VGPU": "1"}], 1, there)
    assert caught.value.message.endswith("; and 295 more.")
    assert len(caught.value.details["hosts"]) == 100  # type: ignore[arg-type]


def test_without_any_offer() -> None:
    with pytest.raises(NoCapacity, match="No host offers what profile gold asks for"):
        choose("gold", [{"resources:VGPU": "1"}], 1, [])
