"""Pools: each line of the reference's section 1.4 is a case under its id."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.model.numa import NumaPolicy, allows
from cantle.model.pool import PciDevice, PciRequest, Pools

GPU = {"vendor_id": "10de", "product_id": "1eb8"}
PF = {"vendor_id": "8086", "product_id": "1520", "dev_type": "type-PF"}
VF = {"vendor_id": "8086", "product_id": "1520", "dev_type": "type-VF"}


def gpu(number: int, *, node: int | None = 0, **tags: str) -> PciDevice:
    """A plain device."""
    return PciDevice(f"0000:{number:02x}:00.0", "10de", "1eb8", "type-PCI", node, tags=tags)


def nic(*, vfs: int = 2, **tags: str) -> list[PciDevice]:
    """A physical function and its virtual ones."""
    pf = PciDevice("0000:81:00.0", "8086", "1520", "type-PF", 0, tags=tags)
    return [pf, *(PciDevice(f"0000:81:10.{n}", "8086", "1520", "type-VF", 0, pf.address, tags) for n in range(vfs))]


def want(
    count: int = 1, *specs: dict[str, str], policy: NumaPolicy | None = None, rps: tuple[str, ...] = ()
) -> PciRequest:
    """A request."""
    return PciRequest(count, specs or (GPU,), policy, rps)


def test_1_4_a_pool_has_the_common_values_and_the_address_of_the_card() -> None:
    (pool,) = Pools.of([gpu(1, physical_network="net1", resource_class="CUSTOM_A", traits="x")]).pools
    assert pool.keys == {
        "product_id": "1eb8",
        "vendor_id": "10de",
        "numa_node": 0,
        "dev_type": "type-PCI",
        "physical_network": "net1",
        "address": "0000:01:00.0",
    }


def test_1_4_one_pool_per_plain_device_and_one_for_the_vfs_of_a_pf() -> None:
    made = Pools.of([gpu(1), gpu(2), *nic(vfs=3)])
    assert sorted((pool.keys["dev_type"], pool.count) for pool in made.pools) == [
        ("type-PCI", 1),
        ("type-PCI", 1),
        ("type-PF", 1),
        ("type-VF", 3),
    ]


def test_1_4_remote_managed_is_false_unless_said_for_functions_of_networks() -> None:
    made = Pools.of([gpu(1), *nic(vfs=1)])
    assert [pool.keys.get("remote_managed") for pool in made.pools] == [None, "false", "false"]


def test_1_4_less_specialised_devices_are_used_first() -> None:
    made = Pools.of([gpu(1, color="red", size="big"), gpu(2), gpu(3, color="red")])
    assert made.consume([want(3)]) == [["0000:02:00.0", "0000:03:00.0", "0000:01:00.0"]]


def test_1_4_1_every_key_of_one_spec_matches_in_whatever_case() -> None:
    made = Pools.of([gpu(1, color="Red")])
    assert made.support([want(1, {**GPU, "color": "rEd"})])
    assert not made.support([want(1, {**GPU, "color": "blue"})])
    assert made.support([want(1, {**GPU, "color": "blue"}, GPU)]), "another spec will do"
    assert made.support([want(1, {**GPU, "resource_class": "CUSTOM_B", "traits": "y"})]), "those are Placement's"


def test_1_4_2_too_few_devices_are_unsupported() -> None:
    made = Pools.of([gpu(1), gpu(2)])
    assert made.support([want(2)])
    assert not made.support([want(3)])
    assert made.filtered(want(3)) is None


def test_1_4_an_instance_without_cells_is_not_filtered_by_numa() -> None:
    assert Pools.of([gpu(1, node=1)]).support([want(1, policy=NumaPolicy.REQUIRED)])


@pytest.mark.parametrize(
    ("policy", "node", "sockets", "fits"),
    [
        pytest.param(NumaPolicy.REQUIRED, 0, None, True, id="1.4 required: the guest's node"),
        pytest.param(NumaPolicy.REQUIRED, 1, None, False, id="1.4 required: another node"),
        pytest.param(NumaPolicy.REQUIRED, None, None, False, id="1.4 required: an unknown node is not node 0"),
        pytest.param(NumaPolicy.LEGACY, 0, None, True, id="1.4 legacy: the guest's node"),
        pytest.param(NumaPolicy.LEGACY, None, None, True, id="1.4 legacy: an unknown node"),
        pytest.param(NumaPolicy.LEGACY, 1, None, False, id="1.4 legacy: another node"),
        pytest.param(NumaPolicy.PREFERRED, 1, None, True, id="1.4 preferred: any node"),
        pytest.param(NumaPolicy.SOCKET, 1, {0: 0, 1: 0, 2: 1}, True, id="1.4 socket: another node of the socket"),
        pytest.param(NumaPolicy.SOCKET, 2, {0: 0, 1: 0, 2: 1}, False, id="1.4 socket: another socket"),
        pytest.param(NumaPolicy.SOCKET, None, {0: 0, 1: 0}, False, id="1.4 socket: an unknown node"),
        pytest.param(NumaPolicy.SOCKET, 1, {0: 0, 1: None}, False, id="1.4 socket: a host that does not say"),
        pytest.param(NumaPolicy.SOCKET, 1, {0: 0, 1: 0, 2: None}, False, id="1.4 socket: a host that says it of some"),
        pytest.param(NumaPolicy.SOCKET, 1, None, False, id="1.4 socket: a host that says nothing"),
        pytest.param(NumaPolicy.SOCKET, 0, None, True, id="1.4 socket: the strict set is tried first"),
        pytest.param(None, 1, None, False, id="1.4 no policy is legacy"),
    ],
)
def test_numa(policy: NumaPolicy | None, node: int | None, sockets: dict[int, int | None] | None, fits: bool) -> None:
    assert Pools.of([gpu(1, node=node)], sockets).support([want(policy=policy)], [0]) is fits
    if policy is not None:
        assert allows(policy, node, [0], sockets) is fits


def test_1_4_the_strictest_set_that_is_large_enough_is_taken_whatever_the_policy() -> None:
    made = Pools.of([gpu(1, node=1), gpu(2, node=0), gpu(3, node=None)])
    taken = made.consume([want(1, policy=NumaPolicy.PREFERRED)], [0])
    assert taken == [["0000:02:00.0"]]
    assert made.consume([want(1, policy=NumaPolicy.PREFERRED)], [0]) == [["0000:03:00.0"]], (
        "unknown before another node"
    )
    assert made.consume([want(1, policy=NumaPolicy.PREFERRED)], [0]) == [["0000:01:00.0"]]


@pytest.mark.parametrize("node", [0, None])
def test_1_4_nodes_are_chosen_before_physical_functions_are_dropped(node: int | None) -> None:
    """As in Nova: the near function was enough, and then it is none that may be given."""
    near = PciDevice("0000:81:00.0", "8086", "1520", "type-PF", node)
    far = PciDevice("0000:82:10.0", "8086", "1520", "type-VF", 1, "0000:82:00.0")
    anything = {"vendor_id": "8086", "product_id": "1520"}
    assert not Pools.of([near, far]).support([want(1, anything, policy=NumaPolicy.PREFERRED)], [0])
    assert Pools.of([far]).support([want(1, anything, policy=NumaPolicy.PREFERRED)], [0])


def test_1_4_4_physical_functions_are_kept_for_those_who_ask_for_them() -> None:
    made = Pools.of(nic(vfs=1))
    anything = {"vendor_id": "8086", "product_id": "1520"}
    assert not made.support([want(2, anything)])
    assert made.consume([want(1, anything)]) == [["0000:81:10.0"]]
    assert Pools.of(nic(vfs=1)).consume([want(1, PF)]) == [["0000:81:00.0"]]


def test_1_4_5_vdpa_devices_are_kept_for_those_who_ask_for_them() -> None:
    vdpa = dataclasses.replace(gpu(1), dev_type="vdpa")
    assert not Pools.of([vdpa]).support([want(1)])
    assert Pools.of([vdpa]).support([want(1, {**GPU, "dev_type": "vdpa"})])


def test_1_4_6_devices_managed_from_afar_are_kept_for_those_who_ask_for_them() -> None:
    made = Pools.of(nic(vfs=1, remote_managed="true"))
    assert not made.support([want(1, VF)])
    assert made.support([want(1, {**VF, "remote_managed": "true"})])


def test_1_4_7_what_placement_chose_is_followed() -> None:
    devices = [dataclasses.replace(gpu(number), rp_uuid=f"rp{number}") for number in (1, 2)]
    assert Pools.of(devices).consume([want(1, rps=("rp2",))]) == [["0000:02:00.0"]]
    assert not Pools.of(devices).support([want(1, rps=("rp3",))])
    assert not Pools.of(devices).support([want(2, rps=("rp1", "rp1"))])
    vfs = [dataclasses.replace(one, rp_uuid="rp3") for one in nic(vfs=2)[1:]]
    asked = want(3, GPU, VF, rps=("rp1", "rp1", "rp3"))
    assert not Pools.of([devices[0], *vfs]).support([asked]), "enough in all, but not of each"


@pytest.mark.parametrize(
    ("asked", "tag", "fits"),
    [
        ("true", "true", True),
        ("true", "false", False),
        ("true", None, False),
        ("false", "false", True),
        ("false", "true", False),
        ("false", None, False),
        (None, "true", True),
        (None, None, True),
    ],
)
def test_1_4_8_live_migratable(asked: str | None, tag: str | None, fits: bool) -> None:
    tags = {} if tag is None else {"live_migratable": tag}
    spec = GPU if asked is None else {**GPU, "live_migratable": asked}
    assert Pools.of([dataclasses.replace(gpu(1), tags=tags)]).support([want(1, spec)]) is fits


@pytest.mark.parametrize("tag", ["true", None])
def test_1_4_8_specs_that_do_not_agree_on_live_migration_filter_nothing(tag: str | None) -> None:
    there = Pools.of([dataclasses.replace(gpu(1), tags={} if tag is None else {"live_migratable": tag})])
    assert there.support([want(1, {**GPU, "live_migratable": "true"}, GPU)])


def test_1_4_consumption_is_cumulative_over_the_requests_of_a_guest() -> None:
    """Nova's bug 1986838."""
    made = Pools.of([gpu(1), gpu(2)])
    assert made.support([want(1), want(1)])
    assert not made.support([want(1), want(2)])
    assert [pool.count for pool in made.pools] == [1, 1], "asking takes nothing"


def test_1_4_devices_are_taken_from_the_tail_of_a_pool() -> None:
    assert Pools.of(nic(vfs=3)).consume([want(2, VF)]) == [["0000:81:10.2", "0000:81:10.1"]]


def test_1_4_a_physical_function_takes_its_virtual_ones_with_it_and_the_reverse() -> None:
    made = Pools.of(nic(vfs=2))
    made.consume([want(1, PF)])
    assert made.pools == []
    made = Pools.of(nic(vfs=2))
    made.consume([want(1, VF)])
    assert [(pool.keys["dev_type"], pool.count) for pool in made.pools] == [("type-VF", 1)]


def test_1_4_on_failure_everything_is_put_back() -> None:
    made = Pools.of([gpu(1), gpu(2)])
    assert made.consume([want(1), want(2)]) is None
    assert sorted(address for pool in made.pools for address in pool.devices) == ["0000:01:00.0", "0000:02:00.0"]


def test_s4_5_the_seeds_pool_is_counted_per_vendor_and_product() -> None:
    vfs = [PciDevice(f"0000:81:10.{n}", "8086", "1520", "type-VF", None, "0000:81:00.0") for n in range(5)]
    (pool,) = Pools.of(vfs).pools
    assert (pool.count, pool.keys["vendor_id"], pool.keys["product_id"]) == (5, "8086", "1520")


devices = st.lists(
    st.builds(gpu, st.integers(1, 40), node=st.sampled_from([0, 1, None]), color=st.sampled_from(["red", "blue"])),
    max_size=8,
    unique_by=lambda one: one.address,
)
requests = st.lists(
    st.builds(
        want,
        st.integers(1, 3),
        st.sampled_from([GPU, {**GPU, "color": "red"}]),
        policy=st.sampled_from([None, *NumaPolicy]),
    ),
    min_size=1,
    max_size=3,
)


@given(devices, requests, st.sampled_from([None, [0], [0, 1]]))
def test_all_or_nothing_each_device_once_and_never_more_than_asked(
    there: list[PciDevice], asked: list[PciRequest], nodes: list[int] | None
) -> None:
    made = Pools.of(there)
    supported = made.support(asked, nodes)
    taken = made.consume(asked, nodes)
    assert (taken is not None) is supported
    left = [address for pool in made.pools for address in pool.devices]
    flat = [address for some in taken or [] for address in some]
    assert sorted(left + flat) == sorted(device.address for device in there)
    if taken is not None:
        assert [len(some) for some in taken] == [request.count for request in asked]
