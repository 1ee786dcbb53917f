"""Extra specs: each line of the reference's sections 1.3, 2.6, 3.1 and 4.2 is a case under its id."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.errors import BadRequest
from cantle.model import alias, extra_specs, requirement
from cantle.model.json_option import Entry
from cantle.model.numa import NumaPolicy
from cantle.model.request import Request, RequestGroup

ALIASES = alias.parse(
    [
        Entry('{"name": "a1", "vendor_id": "10de", "product_id": "06d2", "numa_policy": "required"}'),
        Entry('{"name": "b1", "vendor_id": "8086", "product_id": "0435", "device_type": "type-VF"}'),
    ]
)


@pytest.mark.parametrize(
    ("value", "text", "will_do"),
    [
        pytest.param("2", "= 2", True, id="4.2 = is at least: equal"),
        pytest.param("4", "= 2", True, id="4.2 = is at least: more"),
        pytest.param("1", "= 2", False, id="4.2 = is at least: fewer"),
        pytest.param("2.0", "== 2", True, id="4.2 == compares as numbers"),
        pytest.param("3", "== 2", False, id="4.2 == other number"),
        pytest.param("3", "!= 2", True, id="4.2 !="),
        pytest.param("2", "!= 2.0", False, id="4.2 != same number"),
        pytest.param("10", ">= 9", True, id="4.2 >= as numbers, not as words"),
        pytest.param("8", ">= 9", False, id="4.2 >= fewer"),
        pytest.param("9", "<= 10", True, id="4.2 <= as numbers"),
        pytest.param("11", "<= 10", False, id="4.2 <= more"),
        pytest.param("fermi", "== 2", False, id="4.2 a word is no number: unmet, no error"),
        pytest.param("fermi", "s== fermi", True, id="4.2 s=="),
        pytest.param("Fermi", "s== fermi", False, id="4.2 s== is exact"),
        pytest.param("kepler", "s!= fermi", True, id="4.2 s!="),
        pytest.param("fermi", "s!= fermi", False, id="4.2 s!= the same"),
        pytest.param("a", "s< b", True, id="4.2 s<"),
        pytest.param("b", "s< b", False, id="4.2 s< the same"),
        pytest.param("b", "s<= b", True, id="4.2 s<="),
        pytest.param("c", "s> b", True, id="4.2 s>"),
        pytest.param("b", "s> b", False, id="4.2 s> the same"),
        pytest.param("b", "s>= b", True, id="4.2 s>="),
        pytest.param("10", "s>= 9", False, id="4.2 s>= compares as words"),
        pytest.param("tesla c2050", "<in> c2050", True, id="4.2 <in>: part of the value"),
        pytest.param("tesla", "<in> c2050", False, id="4.2 <in>: no part"),
        pytest.param("tesla c2050", "<in> c2050 fermi", True, id="4.2 <in>: the first operand alone, as in Nova"),
        pytest.param("aes avx sse", "<all-in> aes avx", True, id="4.2 <all-in>: all words"),
        pytest.param("aes sse", "<all-in> aes avx", False, id="4.2 <all-in>: one is missing"),
        pytest.param("kepler", "<or> fermi <or> kepler", True, id="4.2 <or>: one of them"),
        pytest.param("pascal", "<or> fermi <or> kepler", False, id="4.2 <or>: none of them"),
        pytest.param("<or>", "<or> fermi <or> kepler", False, id="4.2 <or>: the word itself is no value"),
        pytest.param("12311321", "12311321", True, id="4.2 no operator: the whole text"),
        pytest.param("a b", "a b", True, id="4.2 no operator: several words"),
        pytest.param("a", "a b", False, id="4.2 no operator: the first word is not enough"),
        pytest.param("3", "> 2", False, id="4.2 there is no numeric >"),
        pytest.param("> 2", "> 2", True, id="4.2 > is part of a value"),
        pytest.param(None, "s!= fermi", False, id="4.2 no value: unmet, also by !="),
        pytest.param("2", "==", False, id="4.2 operator without operand"),
        pytest.param("2", "<or>", False, id="4.2 <or> without operand"),
        pytest.param("", "", True, id="4.2 empty equals empty"),
    ],
)
def test_operators_of_requirements(value: str | None, text: str, will_do: bool) -> None:
    assert requirement.holds(value, text) is will_do


@given(st.text(max_size=8) | st.none(), st.text(max_size=20))
def test_no_value_and_no_text_make_a_requirement_fail_with_an_error(value: str | None, text: str) -> None:
    assert requirement.holds(value, text) in (True, False)


def group(extra: dict[str, str]) -> RequestGroup:
    """The only group of extra specs."""
    (found,) = extra_specs.read(extra, ALIASES).groups
    return found


def read(extra: dict[str, str], profile: list[dict[str, str]] | None = None) -> Request:
    """The request that extra specs make."""
    return extra_specs.read(extra, ALIASES, profile or [])


def test_1_3_an_alias_with_a_count_is_a_group_of_single_devices() -> None:
    found = group({"pci_passthrough:alias": "a1:2"})
    assert (found.name, found.units, found.together) == ("alias a1", 2, False)
    assert [dict(spec) for spec in found.specs] == [{"vendor_id": "10de", "product_id": "06d2"}]
    assert found.numa is NumaPolicy.REQUIRED


def test_1_3_blanks_are_allowed_around_the_commas_of_aliases() -> None:
    found = read({"pci_passthrough:alias": " a1:2 , b1:1 "})
    assert [(one.name, one.units) for one in found.groups] == [("alias a1", 2), ("alias b1", 1)]


@pytest.mark.parametrize("text", ["a1", "a1:", ":2", "a1:x", "a1:0", "a1:-1", "a1:2,", "a1:1:2", "", "a1:٣"])
def test_1_3_a_malformed_alias_request_is_refused_with_its_key(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read({"pci_passthrough:alias": text})
    assert caught.value.code == "bad-extra-spec"
    assert "pci_passthrough:alias" in caught.value.message


def test_1_1_an_alias_nobody_defined_is_refused_by_name() -> None:
    with pytest.raises(BadRequest, match="PCI alias z9 is not defined") as caught:
        read({"pci_passthrough:alias": "z9:1"})
    assert caught.value.code == "alias-not-defined"


def test_1_3_the_flavors_numa_policy_is_over_that_of_the_alias() -> None:
    assert (
        group({"pci_passthrough:alias": "a1:1", "hw:pci_numa_affinity_policy": "preferred"}).numa
        is NumaPolicy.PREFERRED
    )
    with pytest.raises(BadRequest, match="hw:pci_numa_affinity_policy = 'near'"):
        read({"pci_passthrough:alias": "a1:1", "hw:pci_numa_affinity_policy": "near"})


def test_2_6_resources_and_traits_without_a_suffix() -> None:
    found = group({"resources:VGPU": "1", "trait:CUSTOM_X": "required", "trait:CUSTOM_Y": "forbidden"})
    assert (found.amounts, found.required, found.forbidden) == (
        (("VGPU", 1),),
        frozenset({"CUSTOM_X"}),
        frozenset({"CUSTOM_Y"}),
    )


def test_2_6_without_a_suffix_each_class_may_come_from_another_provider() -> None:
    found = read({"resources:VGPU": "1", "resources:FPGA": "2"})
    assert [one.amounts for one in found.groups] == [(("VGPU", 1),), (("FPGA", 2),)]


@pytest.mark.parametrize("suffix", ["1", "2", "_a", "-z", "GPU_left", "x" * 64])
def test_2_6_numbered_groups_have_any_suffix_of_the_pattern(suffix: str) -> None:
    found = group({f"resources{suffix}:VGPU": "1", f"trait{suffix}:CUSTOM_X": "required"})
    assert (found.name, found.required) == (f"resources{suffix}", frozenset({"CUSTOM_X"}))


@pytest.mark.parametrize("suffix", ["x" * 65, "a.b", "a b"])
def test_2_6_what_is_no_suffix_is_no_group(suffix: str) -> None:
    assert read({f"resources{suffix}:VGPU": "1", "resources:VGPU": "1"}).ignored == (f"resources{suffix}:VGPU",)


def test_2_6_group_policy_is_needed_for_two_numbered_groups() -> None:
    two = {"resources1:VGPU": "1", "resources2:VGPU": "1"}
    assert read({**two, "group_policy": "isolate"}).isolate
    assert not read({**two, "group_policy": "none"}).isolate
    with pytest.raises(BadRequest, match="group_policy is missing"):
        read(two)
    with pytest.raises(BadRequest, match="group_policy = 'apart'"):
        read({**two, "group_policy": "apart"})


def test_2_6_any_of_several_traits() -> None:
    found = group(
        {"resources1:VGPU": "1", "trait1:in:CUSTOM_A,CUSTOM_B": "required", "trait1:in:CUSTOM_C": "forbidden"}
    )
    assert (found.any_of, found.forbidden) == ((frozenset({"CUSTOM_A", "CUSTOM_B"}),), frozenset({"CUSTOM_C"}))


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"resources:VGPU": "one"}, "resources:VGPU = 'one'"),
        ({"resources:vgpu": "1"}, "resources:vgpu"),
        ({"resources:VGPU": "1", "trait:CUSTOM_X": "maybe"}, "trait:CUSTOM_X = 'maybe'"),
        ({"resources:VGPU": "1", "trait:custom": "required"}, "trait:custom"),
        ({"resources1:VGPU": "1", "trait2:CUSTOM_X": "required"}, "trait2:CUSTOM_X stands alone"),
        ({"resources:VGPU": "257"}, "at most 256"),
        ({"gpus": "0"}, "gpus = '0'"),
        ({"gpus": "<= 2"}, "gpus = '<= 2'"),
        ({"gpus": "two"}, "gpus = 'two'"),
        ({"gpus": "1", "gpu_arch": "s=="}, "gpu_arch = 's=='"),
        ({"gpus": "1", "gpu_arch": ""}, "gpu_arch is empty"),
        ({"gpus": "1", "memory": "== big"}, "memory = '== big'"),
        ({"gpus": "1", "memory": "> 2"}, "did you mean 's>'"),
        ({"gpu_arch": "s== fermi"}, "no accelerator"),
        ({"resources:VGPU": "0"}, "no accelerator"),
        ({}, "no accelerator"),
    ],
)
def test_errors_name_the_key(extra: dict[str, str], said: str) -> None:
    with pytest.raises(BadRequest) as caught:
        read(extra)
    assert caught.value.code == "bad-extra-spec"
    assert said in caught.value.message


def test_3_1_a_device_profiles_groups_come_first_under_their_requester_ids() -> None:
    profile = [{"resources:VGPU": "1"}, {"resources:FPGA": "2", "trait:CUSTOM_X": "required"}]
    found = read({"accel:device_profile": "p", "resources:VGPU": "1"}, profile)
    assert [one.name for one in found.groups] == ["device_profile_0", "device_profile_1", "resources:VGPU"]
    assert found.groups[1].required == {"CUSTOM_X"}
    assert not found.isolate, "no policy is Nova's default for groups of a profile"


def test_s3_3_the_profile_may_go_by_either_name_that_the_seed_has() -> None:
    assert extra_specs.profile_named({"accel:device_profile": " gold "}) == "gold"
    assert extra_specs.profile_named({"accel:device_profile_name": "gold"}) == "gold"
    assert extra_specs.profile_named({"accel:device_profile_name": "gold", "accel:device_profile": "gold"}) == "gold"
    assert extra_specs.profile_named({"gpus": "1"}) is None
    found = read({"accel:device_profile_name": "gold"}, [{"resources:VGPU": "1"}])
    assert ([one.name for one in found.groups], found.ignored) == (["device_profile_0"], ())
    with pytest.raises(BadRequest, match="two device profiles"):
        extra_specs.profile_named({"accel:device_profile_name": "gold", "accel:device_profile": "silver"})


def test_a_profile_under_a_misspelt_key_is_not_left_out_in_silence() -> None:
    with pytest.raises(BadRequest, match="accel:device_profil is no key of a flavor; there is accel:device_profile"):
        read({"gpus": "1", "accel:device_profil": "gold"})


def test_2_6_the_flavors_group_policy_governs_the_profiles_groups_too() -> None:
    assert read({"accel:device_profile": "p", "group_policy": "isolate"}, [{"resources:VGPU": "1"}] * 2).isolate


@pytest.mark.parametrize("text", ["2", "= 2", "== 2", ">= 2", "s== 2"])
def test_s2_1_gpus_are_whole_cards_each_another_one(text: str) -> None:
    found = group({"gpus": text})
    assert (found.amounts, found.apart, found.together) == ((("PGPU", 2),), True, False)


def test_s2_1_the_seeds_flavor() -> None:
    found = group({"hypervisor": "s== LXC", "gpus": "= 2", "gpu_arch": "s== fermi"})
    assert found.units == 2
    assert [str(label) for label in found.labels] == ["hypervisor s== LXC", "gpu_arch s== fermi"]


def test_4_2_scoped_keys_of_novas_filters_are_labels_and_other_scopes_are_passed_over() -> None:
    found = read(
        {
            "gpus": "1",
            "capabilities:gpu_arch": "s== fermi",
            "aggregate_instance_extra_specs:rack": "r7",
            "hw:cpu_policy": "dedicated",
            "quota:cpu_shares": "10",
            "resources:VCPU": "0",
        }
    )
    assert [label.key for label in found.groups[0].labels] == ["gpu_arch", "rack"]
    assert found.ignored == ("hw:cpu_policy", "quota:cpu_shares", "resources:VCPU")


def test_traits_of_the_host_alone_are_novas_business() -> None:
    assert read({"gpus": "1", "trait:HW_CPU_X86_AVX2": "required"}).ignored == ("trait:HW_CPU_X86_AVX2",)


def test_all_forms_combine_and_labels_hold_for_every_card() -> None:
    found = read(
        {
            "accel:device_profile": "p",
            "pci_passthrough:alias": "b1:1",
            "resources1:VGPU": "1",
            "gpus": "1",
            "rack": "r7",
        },
        [{"resources:FPGA": "1"}],
    )
    assert [one.name for one in found.groups] == ["device_profile_0", "resources1", "alias b1", "gpus"]
    assert all([label.key for label in one.labels] == ["rack"] for one in found.groups)


@given(
    st.dictionaries(
        st.sampled_from(
            ["gpus", "gpu_arch", "resources1:VGPU", "trait1:CUSTOM_A", "group_policy", "pci_passthrough:alias"]
        )
        | st.text(max_size=12),
        st.sampled_from(["1", "= 2", "required", "isolate", "a1:1", "s== x"]) | st.text(max_size=12),
        max_size=5,
    )
)
def test_any_extra_specs_are_a_request_or_refused_by_name(extra: dict[str, str]) -> None:
    with contextlib.suppress(BadRequest):
        found = read(extra)
        assert found.units >= 1
        assert all(one.units >= 1 for one in found.groups)
