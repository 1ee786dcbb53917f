"""How many more fit: as many as can be taken one after the other, and not one more."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed
from tests.unit.scheduling.offers import of_one_host, offer, requests

from cantle.model.offer import Offer
from cantle.model.request import Request, of_profile
from cantle.scheduling.count import how_many, shape
from cantle.scheduling.fit import fit


@settings(max_examples=200, deadline=None)
@given(requests, of_one_host)
def test_so_many_fit_and_not_one_more(request: Request, there: list[Offer]) -> None:
    left = {one.deployable_id: one for one in there}
    for _ in range(how_many(request, there)):
        taken = fit(request, list(left.values()))
        assert taken is not None
        for one in taken:
            card = left[one.offer.deployable_id]
            left[card.deployable_id] = changed(card, free=card.free - one.amount, used=card.used + one.amount)
            assert left[card.deployable_id].free >= 0
    assert fit(request, list(left.values())) is None


@settings(max_examples=100, deadline=None)
@given(requests, of_one_host, st.text(max_size=3))
def test_hosts_of_one_shape_have_equal_room(request: Request, there: list[Offer], name: str) -> None:
    elsewhere = [changed(one, hostname=name, host_id=99, rp_uuid=name) for one in there]
    assert shape(elsewhere) == shape(there)
    assert how_many(request, elsewhere) == how_many(request, there)


@pytest.mark.parametrize(
    ("group", "there", "many"),
    [
        ({"resources:VGPU": "2"}, [offer(1, free=5), offer(2, free=3)], 3),
        ({"resources:VGPU": "1"}, [offer(1, free=4, out="host-down")], 0),
        ({"resources:PGPU": "1"}, [offer(n, resource_class="PGPU", labels={"unit": "a"}) for n in (1, 2)], 1),
        (
            {"resources:VGPU": "1"},
            [offer(1, free=4, labels={"unit": "a"})],
            1,
        ),  # of a unit that is begun nothing more is lent
        ({"resources:VGPU": "2", "accel:anti_affinity": "card"}, [offer(1, free=3), offer(2, free=2)], 2),
    ],
)
def test_examples(group: dict[str, str], there: list[Offer], many: int) -> None:
    assert how_many(of_profile([group]), there) == many
