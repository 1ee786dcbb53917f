"""The seed's story (spec S2): a person picks a flavor with two GPUs of an architecture, boots, and finds exactly those two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.serving import Serving, cantle, serving

FERMI, KEPLER = "06d2", "1023"

#: What no hardware says: architectures, and which host runs containers.
CONFIG = """
[labels]
host = {"hostname": "lxc-*", "hypervisor": "LXC"}
host = {"hostname": "kvm", "hypervisor": "QEMU"}
card = {"vendor_id": "10de", "product_id": "06d2", "gpu_arch": "fermi"}
card = {"vendor_id": "10de", "product_id": "1023", "gpu_arch": "kepler"}

[pci]
alias = {"name": "m2050", "vendor_id": "10de", "product_id": "06d2"}
"""

FLAVOR = ("--spec", "gpus== 2", "--spec", "gpu_arch=s== fermi", "--spec", "hypervisor=s== LXC")


def host(place: Path, name: str, product: str, cards: int) -> str:
    """The description of a simulated host with so many cards; its path."""
    functions = [
        f'  - {{address: "0000:{bus:02x}:00.0", vendor: "10de", device: "{product}", class: "030200", '
        f"iommu_group: {bus}, numa_node: 0, driver: nvidia, drivers: [nvidia]}}"
        for bus in range(4, 4 + cards)
    ]
    lines = [f"name: {name}", f"summary: {cards} cards", "iommu: intel", "modules: [vfio, vfio_iommu_type1, vfio-pci]"]
    path = place / f"{name}.yaml"
    path.write_text("\n".join([*lines, "functions:", *functions, ""]))
    return str(path)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """Three hosts: one with containers and four Fermi cards, one with containers and Kepler cards, one with guests and Fermi cards."""
    place = tmp_path_factory.mktemp("fermi")
    labels = place / "labels.conf"
    labels.write_text(CONFIG)
    hosts = [host(place, "lxc-fermi", FERMI, 4), host(place, "lxc-kepler", KEPLER, 2), host(place, "kvm", FERMI, 4)]
    options = [word for path in hosts for word in ("--simulate", path)]
    with serving(place, "--config-file", str(labels), *options) as running:
        running.await_hosts("lxc-fermi", "lxc-kepler", "kvm")
        yield running


def test_two_leases_take_two_cards_each_on_the_only_host_that_does_and_the_third_explains_itself(
    server: Serving,
) -> None:
    made = server.cantle("flavor", "create", "cg1.xlarge", *FLAVOR)
    assert made.code == 0, made
    leases = [server.json("lease", "create", "cg1.xlarge", "--wait") for _ in range(2)]
    assert [(lease["hostname"], lease["state"], len(lease["arqs"])) for lease in leases] == [
        ("lxc-fermi", "active", 2)
    ] * 2
    cards = [arq["device_rp_uuid"] for lease in leases for arq in lease["arqs"]]
    assert len(set(cards)) == 4, "no card is lent twice"

    third = server.cantle("lease", "create", "cg1.xlarge")
    assert third.code == 4
    assert "gpus: " in third.err
    assert "4 cards: are lent completely" in third.err
    assert "4 cards: label hypervisor is 'QEMU', wanted is 's== LXC'" in third.err
    assert "2 cards: label gpu_arch is 'kepler', wanted is 's== fermi'" in third.err

    found = server.json("explain", "--flavor", "cg1.xlarge")
    assert not found["fits"]
    reasons = {reason["code"]: reason["cards"] for group in found["groups"] for reason in group["reasons"]}
    assert reasons["all-lent"] == 4

    server.cantle("lease", "release", leases[0]["uuid"], "--wait")
    again = server.json("lease", "create", "cg1.xlarge", "--wait")
    assert again["hostname"] == "lxc-fermi"
    for lease in (leases[1], again):
        assert server.cantle("lease", "release", lease["uuid"], "--wait").code == 0


def test_a_flavor_in_use_stays_and_a_name_is_a_flavors_or_a_profiles(server: Serving) -> None:
    assert server.cantle("flavor", "create", "two", "--spec", "pci_passthrough:alias=m2050:2").code == 0
    lease = server.json("lease", "create", "two", "--wait")
    done = server.cantle("flavor", "delete", "two")
    assert (done.code, "[flavor-in-use]" in done.err) == (4, True)
    taken = server.cantle("profile", "create", "two", "--group", "resources:PGPU=1")
    assert "A flavor named two exists already" in taken.err
    assert "two" not in [row["name"] for row in server.json("profile", "list")], "a flavor is no device profile"
    assert server.cantle("lease", "release", lease["uuid"], "--wait").code == 0
    assert server.cantle("flavor", "delete", "two").code == 0
    assert server.cantle("flavor", "show", "two").code == 3


def test_a_guest_on_a_memory_node_gets_cards_of_that_node(server: Serving) -> None:
    """All cards of the host are on node 0."""
    words = ("--spec", "gpus=1", "--spec", "hw:pci_numa_affinity_policy=required")
    assert server.cantle("flavor", "create", "near", *words).code == 0
    away = server.cantle("lease", "create", "near", "--host", "kvm", "--numa-node", "1")
    assert (away.code, "on NUMA node 0" in away.err) == (4, True)
    both = ("--numa-node", "0", "--numa-node", "1")
    lease = server.json("lease", "create", "near", "--host", "kvm", *both, "--wait")
    assert lease["state"] == "active"
    assert server.cantle("lease", "release", lease["uuid"], "--wait").code == 0


def test_explain_answers_before_anything_is_made(server: Serving) -> None:
    found = server.json("explain", "--spec", "gpus== 2", "--spec", "gpu_arch=s== kepler")
    assert (found["fits"], found["fitting"]) == (True, ["lxc-kepler"])
    table = server.cantle("explain", "--spec", "gpus== 3", "--spec", "gpu_arch=s== kepler", "-o", "wide")
    assert "too-few-together" in table.out
    assert "has 2 for gpus, 3 wanted" in table.err
    wrong = server.cantle("explain", "--spec", "gpus== many")
    assert (wrong.code, "[bad-extra-spec]" in wrong.err) == (2, True)
    assert server.cantle("explain").code == 2


def test_a_mistake_in_configuration_is_told_with_file_and_line(tmp_path: Path) -> None:
    for text, said in (
        ('[labels]\n\ncard = {"product_id": "06d2"}\n', "wrong.conf:3: [labels] card: "),
        ('[pci]\nalias = {"name": "a"}\n', "wrong.conf:2: [pci] alias: "),
        ('[DEFAULT]\npci_passthrough_whitelist = [{"address": "0a:20.0"}]\n', "wrong.conf:2: [pci] device_spec: "),
    ):
        (tmp_path / "wrong.conf").write_text(text)
        done = cantle("config", "check", "--config-file", str(tmp_path / "wrong.conf"), "--state-dir", str(tmp_path))
        assert done.code == 78, done
        assert said in done.err
