"""Offers and requests for tests of choosing."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import strategies as st
from msgspec.structs import replace

from cantle.model import kind as kinds
from cantle.model.device import Mode
from cantle.model.kind import Kind
from cantle.model.numa import NumaPolicy, Sockets
from cantle.model.offer import Offer
from cantle.model.request import Request, RequestGroup
from cantle.model.requirement import Requirement

TRAITS = ("CUSTOM_A", "CUSTOM_B")


def kind(
    resource_class: str = "VGPU",
    traits: tuple[str, ...] = (),
    labels: Mapping[str, str] | None = None,
    *,
    product: str = "1eb8",
) -> Kind:
    """A kind as a report makes it."""
    mode = Mode.PASSTHROUGH if resource_class == "PGPU" else Mode.MDEV
    return kinds.load(
        *kinds.facts(
            resource_class=resource_class,
            mode=mode,
            vendor_id="10de",
            product_id=product,
            model="T4",
            capabilities=("passthrough",),
            traits=traits,
            labels=labels or {},
        )
    )


def offer(
    number: int,
    *,
    host: str = "h1",
    resource_class: str = "VGPU",
    traits: tuple[str, ...] = (),
    labels: Mapping[str, str] | None = None,
    used: int = 0,
    free: int = 1,
    node: int | None = 0,
    out: str | None = None,
    sockets: Sockets | None = None,
) -> Offer:
    """A card of a host."""
    return Offer(
        deployable_id=number,
        rp_uuid=f"rp-{number}",
        host_id=sum(map(ord, host)),
        hostname=host,
        address=f"0000:{number:02x}:00.0",
        kind=kind(resource_class, traits, labels),
        used=used,
        free=free,
        numa_node=node,
        out_of_service=None if out is None else (out, f"is {out}"),
        sockets=sockets,
    )


def group(
    amount: int = 1,
    resource_class: str = "VGPU",
    *,
    required: tuple[str, ...] = (),
    forbidden: tuple[str, ...] = (),
    together: bool = True,
    apart: bool = False,
    numa: NumaPolicy | None = None,
    labels: tuple[Requirement, ...] = (),
) -> RequestGroup:
    """A group of a request."""
    return RequestGroup(
        f"{amount} {resource_class}",
        ((resource_class, amount),),
        required=frozenset(required),
        forbidden=frozenset(forbidden) - frozenset(required),
        together=together and not apart,
        apart=apart,
        numa=numa,
        labels=labels,
    )


some_traits = st.lists(st.sampled_from(TRAITS), unique=True).map(tuple)
offers = st.builds(
    offer,
    st.integers(0, 9),
    resource_class=st.sampled_from(["VGPU", "PGPU"]),
    traits=some_traits,
    labels=st.sampled_from([{}, {}, {"arch": "fermi"}, {"unit": "a"}, {"units_per_guest": "1"}]),
    used=st.integers(0, 2),
    free=st.integers(0, 3),
    node=st.sampled_from([0, 1, None]),
    out=st.sampled_from([None, None, None, "host-down"]),
)
#: Nodes 0 and 1 on one socket, on two, and not known.
boards = st.sampled_from([None, {0: 0, 1: 0}, {0: 0, 1: 1}, {0: 0, 1: None}])
of_one_host = st.builds(
    lambda found, sockets: [replace(one, sockets=sockets) for one in found],
    st.lists(offers, max_size=4, unique_by=lambda one: one.deployable_id),
    boards,
)
of_hosts = st.lists(
    st.builds(
        lambda one, host: offer(
            one.deployable_id,
            host=host,
            resource_class=one.kind.resource_class,
            traits=tuple(one.kind.traits),
            labels=one.kind.labels,
            used=one.used,
            free=one.free,
            node=one.numa_node,
            out=None if one.out_of_service is None else one.out_of_service[0],
        ),
        offers,
        st.sampled_from(["h1", "h2", "h3"]),
    ),
    max_size=6,
    unique_by=lambda one: one.deployable_id,
)
groups = st.builds(
    group,
    st.integers(1, 3),
    st.sampled_from(["VGPU", "PGPU"]),
    required=st.lists(st.sampled_from(TRAITS), max_size=1).map(tuple),
    forbidden=st.lists(st.sampled_from(TRAITS), max_size=1).map(tuple),
    together=st.booleans(),
    apart=st.booleans(),
    numa=st.sampled_from([None, None, *NumaPolicy]),
    labels=st.sampled_from([(), (), (Requirement("arch", "s== fermi"),)]),
)
requests = st.builds(Request, st.lists(groups, min_size=1, max_size=3).map(tuple), isolate=st.booleans())
