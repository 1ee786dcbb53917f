"""Every rule of the reference's sections 1 (Nova's PCI passthrough), 2.6 and 4.2 (extra specs) has a case: ``nova_rules.yaml`` says which.

Here are also the cases of rules about what Cantle does not have by design (ports, images, Nova's own PCI providers): they show what it does
instead.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
import yaml
from tests.unit.kernel.tree import Tree
from tests.unit.scheduling.offers import kind

from cantle.agent import discover
from cantle.conf import pci
from cantle.drivers import loader
from cantle.errors import BadConfig, BadRequest
from cantle.model import device_spec, extra_specs, requirement
from cantle.model import kind as kinds
from cantle.model.alias import NO_ALIASES
from cantle.model.device import Mode
from cantle.model.enabled_types import EnabledTypes
from cantle.model.json_option import Entry
from cantle.model.kind import Kind, mismatch
from cantle.model.pool import PciRequest, Pools
from cantle.model.request import RequestGroup
from cantle.wire.inventory import DeviceReport

TESTS = Path(__file__).parents[1]
RULES: dict[str, dict[str, object]] = yaml.safe_load(Path(__file__).with_name("nova_rules.yaml").read_text())


@cache
def named(directory: str) -> frozenset[str]:
    """The names of a directory's test functions, and the ids of its cases."""
    text = "\n".join(file.read_text() for file in sorted((TESTS / directory).glob("test_*.py")))
    return frozenset(re.findall(r"^def (test_\w+)", text, re.MULTILINE) + re.findall(r'\bid="([^"]+)"', text))


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_a_case(rule: str) -> None:
    cases = RULES[rule]["cases"]
    assert isinstance(cases, list)
    assert cases, "a rule without a case"
    for case in cases:
        directory, _, name = str(case).partition("::")
        assert name in named(directory), case


def test_the_rules_are_those_of_every_part_without_a_gap() -> None:
    parts = {"1.1": 16, "1.2": 18, "1.3": 3, "1.4": 14, "1.5": 12, "1.6": 9, "1.7": 14, "1.8": 9, "2.6": 9, "4.2": 13}
    assert list(RULES) == [f"{part}.{number}" for part, most in parts.items() for number in range(1, most + 1)]


def alias(**spec: str) -> RequestGroup:
    """An alias with one spec."""
    return RequestGroup("alias a", count=1, specs=(tuple(spec.items()),))


def card(resource_class: str = "PGPU", *, mode: str = Mode.PASSTHROUGH, sriov: bool = False) -> Kind:
    """A card that is given to guests as it is."""
    return kinds.load(
        *kinds.facts(
            resource_class=resource_class,
            mode=mode,
            vendor_id="10de",
            product_id="20b0",
            model="A100",
            capabilities=("passthrough", "sriov") if sriov else ("passthrough",),
            traits=(),
            labels={},
        )
    )


@pytest.mark.parametrize(
    ("wanted", "offered", "will_do"),
    [
        pytest.param("fast-gpu", "CUSTOM_FAST_GPU", True, id="1.7 other names become custom ones"),
        pytest.param("custom_fast", "CUSTOM_FAST", True, id="1.7 upper case; CUSTOM_ is kept"),
        pytest.param("pgpu", "PGPU", True, id="1.7 a standard class is kept"),
        pytest.param("CUSTOM_PCI_10DE_20B0", "PGPU", True, id="1.7 by default a class is of the ids"),
        pytest.param("CUSTOM_PCI_10DE_20B1", "PGPU", False, id="1.7 the class of other ids"),
    ],
)
def test_the_resource_class_of_an_alias_is_normalised(wanted: str, offered: str, will_do: bool) -> None:
    group = alias(vendor_id="10de", product_id="20b0", resource_class=wanted)
    assert (mismatch(group, card(offered)) is None) is will_do


def test_1_1_aliases_are_the_servers_alone_and_no_agent_reads_them(tmp_path: Path) -> None:
    """Nova's must be the same on API and compute nodes. Here one process resolves them, so they cannot differ."""
    conf = tmp_path / "nova.conf"
    conf.write_text('[pci]\nalias = {"name": "broken"}\n')
    assert pci.labelling([str(conf)]).whitelist.specs == ()


def test_1_2_tags_of_networks_are_tags_as_any_other() -> None:
    """Cantle knows no ports: physical_network and trusted keep a card from nobody, and can be asked for as labels."""
    (spec,) = device_spec.parse([Entry('{"physical_network": "net1", "trusted": "true"}')]).specs
    assert spec.pool_tags == {"physical_network": "net1", "trusted": "true"}
    there = kind("PGPU", labels=spec.pool_tags)
    assert mismatch(alias(vendor_id="10de", product_id="1eb8"), there) is None
    (group,) = extra_specs.read({"gpus": "1", "physical_network": "net2"}, NO_ALIASES).groups
    wrong = mismatch(group, there)
    assert wrong is not None
    assert wrong.code == "other-label"


def test_1_2_a_physical_function_that_is_managed_from_afar_is_given_to_nobody_by_an_alias() -> None:
    """Nova refuses its configuration. Whether a function is a physical one is known of each device only from its host's report."""
    there = kind("PGPU", labels={"remote_managed": "true"})
    wrong = mismatch(alias(vendor_id="10de", product_id="1eb8"), there)
    assert wrong is not None
    assert wrong.code == "remote-managed"


def test_1_2_a_device_for_one_use_is_not_lent_at_all(tmp_path: Path) -> None:
    """Nova keeps it reserved after its first guest; here it would be cleaned and lent again."""
    conf = tmp_path / "nova.conf"
    conf.write_text('[pci]\nreport_in_placement = true\ndevice_spec = {"vendor_id": "10de", "one_time_use": "yes"}\n')
    card = reported(tmp_path, EnabledTypes(labelling=pci.labelling([str(conf)])))
    assert card.deployables == ()
    assert "one_time_use" in str(card.reason)


def test_1_3_the_policy_of_an_image_is_refused_with_the_flavors_key() -> None:
    with pytest.raises(BadRequest, match="the key of a flavor is hw:pci_numa_affinity_policy"):
        extra_specs.read({"gpus": "1", "hw_pci_numa_affinity_policy": "required"}, NO_ALIASES)


def test_1_4_a_tag_is_one_word_and_no_list() -> None:
    with pytest.raises(BadConfig, match="give a string"):
        device_spec.parse([Entry(json.dumps({"capabilities": ["a", "b"]}))])


def test_1_4_no_request_passes_everywhere_and_a_host_without_devices_serves_none() -> None:
    assert Pools.of([]).support([])
    assert not Pools.of([]).support([PciRequest(1, ({"vendor_id": "10de"},))])


def test_1_6_a_function_that_could_have_virtual_ones_is_a_pf_though_none_is_enabled(tmp_path: Path) -> None:
    found = reported(tmp_path, EnabledTypes(), sriov=(16, 0))
    (offered,) = found.deployables
    text = kinds.facts(
        resource_class=offered.resource_class,
        mode=found.mode,
        vendor_id=found.vendor_id,
        product_id=found.product_id,
        model=found.model,
        capabilities=found.capabilities,
        traits=offered.traits,
        labels=found.labels,
    )
    assert kinds.load(*text).dev_type == "type-PF"


@pytest.mark.parametrize(
    ("sriov", "said", "told"),
    [
        pytest.param(True, "type-PCI", "is type-PF (type-PCI)", id="1.6 type-PCI for a card with SR-IOV"),
        pytest.param(True, None, "is type-PF (an alias without device_type", id="1.6 no type for a card with SR-IOV"),
        pytest.param(False, "type-PF", "is type-PCI (type-PF)", id="1.6 type-PF for a card without"),
    ],
)
def test_the_usual_trap_is_named_by_an_explanation(sriov: bool, said: str | None, told: str) -> None:
    wrong = mismatch(
        alias(vendor_id="10de", product_id="20b0", **({"dev_type": said} if said else {})), card(sriov=sriov)
    )
    assert wrong is not None
    assert (wrong.code, wrong.mend) == ("other-device-type", "set device_type in the alias")
    assert told in wrong.what


def test_1_8_a_virtual_function_on_its_makers_variant_driver_is_asked_for_by_its_class() -> None:
    a16 = card("CUSTOM_A16_16A", mode=Mode.VENDOR_VFIO)
    assert mismatch(alias(dev_type="type-VF", resource_class="CUSTOM_A16_16A"), a16) is None


def test_4_2_a_nested_capability_is_the_label_of_the_whole_path() -> None:
    """Nova walks into a host's dictionaries; a card's labels are flat."""
    (group,) = extra_specs.read({"gpus": "1", "capabilities:cpu_info:vendor": "s== Intel"}, NO_ALIASES).groups
    assert [label.key for label in group.labels] == ["cpu_info:vendor"]


@pytest.mark.parametrize(("text", "will_do"), [("r7", False), ("<in> r7", True), ("<or> r7 <or> r7,r8", True)])
def test_4_2_a_label_has_one_value_where_aggregates_have_several(text: str, will_do: bool) -> None:
    """Of several values of a key, Nova's aggregates need one to match."""
    assert requirement.holds("r7,r8", text) is will_do


def reported(tmp_path: Path, enabled: EnabledTypes, sriov: tuple[int, int] | None = None) -> DeviceReport:
    """The only card of a host, as its agent reports it."""
    tree = Tree(tmp_path / "tree")
    tree.function("0000:81:00.0", "10de:20b0", "030200", driver="nvidia", group=7, sriov=sriov)
    view, problems = discover.look("h", tree.root, enabled, {})
    (found,) = discover.report(view, loader.load()[0], problems, "start").devices
    return found
