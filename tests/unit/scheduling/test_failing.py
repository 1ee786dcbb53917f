"""Cards of a host that failed a moment ago are taken only where nothing fits without them."""

from __future__ import annotations

import msgspec
from tests.unit.scheduling.offers import offer

from cantle.model import request
from cantle.model.kind import UNIT_LABEL
from cantle.model.offer import Offer
from cantle.model.request import Request
from cantle.scheduling.fit import fit


def failing(card: Offer) -> Offer:
    return msgspec.structs.replace(card, failing=True)


def taken(asked: Request, *offers: Offer) -> set[int]:
    return {one.offer.deployable_id for one in fit(asked, offers) or ()}


ONE = request.of_profile([{"resources:PGPU": "1"}])


def test_two_cards_near_each_other_are_not_the_bad_one_and_its_neighbour_while_another_node_has_two() -> None:
    cards = [offer(number, resource_class="PGPU", node=number // 3) for number in (1, 2, 3, 4)]
    cards[1] = failing(cards[1])
    assert taken(ONE.times(2), *cards) == {3, 4}
    assert taken(ONE.times(4), *cards) == {1, 2, 3, 4}


def test_of_two_bad_cards_and_a_good_one_no_more_bad_ones_are_taken_than_must_be() -> None:
    cards = [offer(number, resource_class="PGPU") for number in (1, 2, 3)]
    assert 3 in taken(ONE.times(2), failing(cards[0]), failing(cards[1]), cards[2])


def test_a_card_whose_companion_fails_gives_way_to_its_neighbour() -> None:
    first, other = {UNIT_LABEL: "1"}, {UNIT_LABEL: "2"}
    unit = (
        offer(1, resource_class="PGPU", labels=first),
        failing(offer(2, resource_class="CUSTOM_AUDIO", labels=first)),
    )
    neighbour = (offer(3, resource_class="PGPU", labels=other), offer(4, resource_class="CUSTOM_AUDIO", labels=other))
    assert taken(ONE, *unit, *neighbour) == {3, 4}
    assert taken(ONE, *unit) == {1, 2}
