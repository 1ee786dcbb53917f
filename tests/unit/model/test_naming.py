"""Names in Placement's alphabet: valid, and two types of one card never the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.model import naming

VALID = re.compile(r"CUSTOM_[A-Z0-9_]+")


def trait(name: str | None, type_id: str, vendor: str = "10de", product: str = "1eb8") -> str:
    return naming.mdev_traits(vendor, product, type_id, {type_id: name})[1]


def test_the_worked_example_of_the_seed_comes_out_exactly() -> None:
    assert naming.mdev_traits("10de", "1eb8", "nvidia-223", {"nvidia-223": "GRID T4-2B"}) == (
        "OWNER_CYBORG",
        "CUSTOM_NVIDIA_1EB8_T4_2B",
    )
    assert naming.device_traits("10de", "1eb8") == ("OWNER_CYBORG", "CUSTOM_NVIDIA_1EB8")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("GRID T4-2B", "T4-2B"),
        ("GRID T4-2B4", "T4-2B4"),
        ("GRID M60-0B", "M60-0B"),
        ("GRID V100DX-32C", "V100DX-32C"),
        ("NVIDIA A40-1B", "A40-1B"),
        ("NVIDIA A100-1-5CME", "A100-1-5CME"),
        ("NVIDIA RTX Pro 6000 Blackwell DC-1-24Q", "DC-1-24Q"),
        ("NVIDIA RTX Pro 6000 Blackwell DC-1-24QNOMEGFX", "DC-1-24QNOMEGFX"),
        ("NVIDIA RTX6000-Ada-8Q", "RTX6000-Ada-8Q"),
        ("MIG 1g.18gb+me", "1g.18gb+me"),
        ("1g.18gb+me", "1g.18gb+me"),
        ("Single port serial", "Single port serial"),
        ("Dual  port serial", "Dual port serial"),
        ("small", "small"),
        (None, "i915-GVTg_V5_8"),
        ("", "i915-GVTg_V5_8"),
        (" \n", "i915-GVTg_V5_8"),
    ],
)
def test_the_brand_is_dropped_only_from_names_in_nvidias_grammar(name: str | None, words: str) -> None:
    assert naming.mdev_type_words(name, "i915-GVTg_V5_8") == words


def test_the_cards_of_the_issue_get_distinct_traits() -> None:
    names: dict[str, str | None] = {
        "nvidia-1": "NVIDIA RTX Pro 6000 Blackwell DC-3Q",
        "nvidia-2": "NVIDIA RTX Pro 6000 Blackwell DC-6Q",
        "nvidia-3": "NVIDIA RTX6000-Ada-8Q",
        "nvidia-4": "1g.18gb+me",
        "nvidia-5": "1g.18gb",
    }
    assert naming.mdev_type_traits("NVIDIA", "2bb5", names) == {
        "nvidia-1": "CUSTOM_NVIDIA_2BB5_DC_3Q",
        "nvidia-2": "CUSTOM_NVIDIA_2BB5_DC_6Q",
        "nvidia-3": "CUSTOM_NVIDIA_2BB5_RTX6000_ADA_8Q",
        "nvidia-4": "CUSTOM_NVIDIA_2BB5_1G_18GB_ME",
        "nvidia-5": "CUSTOM_NVIDIA_2BB5_1G_18GB",
    }


def test_types_that_would_share_a_trait_get_their_ids_added_and_the_others_stay() -> None:
    names: dict[str, str | None] = {"x-1": "Foo bar", "x-2": "foo-bar", "x-3": "baz"}
    assert naming.mdev_type_traits("AMD", "73bf", names) == {
        "x-1": "CUSTOM_AMD_73BF_FOO_BAR_X_1",
        "x-2": "CUSTOM_AMD_73BF_FOO_BAR_X_2",
        "x-3": "CUSTOM_AMD_73BF_BAZ",
    }


def test_a_parent_that_is_no_pci_function_is_named_by_its_driver() -> None:
    names: dict[str, str | None] = {"mtty-1": "Single port serial", "mtty-2": "Dual port serial"}
    assert naming.mdev_traits("", "", "mtty-1", names)[1] == "CUSTOM_MDEV_MTTY_SINGLE_PORT_SERIAL"
    assert naming.mdev_traits("", "", "mtty-2", names)[1] == "CUSTOM_MDEV_MTTY_DUAL_PORT_SERIAL"


@pytest.mark.parametrize(
    ("name", "traits"),
    [
        ("GRID T4-2B", ("CUSTOM_VGPU_MEMORY_2GB", "CUSTOM_VGPU_SERIES_B")),
        ("GRID V100D-32C", ("CUSTOM_VGPU_MEMORY_32GB", "CUSTOM_VGPU_SERIES_C")),
        ("NVIDIA A100-1-5CME", ("CUSTOM_VGPU_MEMORY_5GB", "CUSTOM_VGPU_SERIES_C")),
        ("GRID M60-2B4", ("CUSTOM_VGPU_MEMORY_2GB", "CUSTOM_VGPU_SERIES_B")),
        ("1g.18gb+me", ("CUSTOM_VGPU_MEMORY_18GB",)),
        ("1c.3g.40gb", ("CUSTOM_VGPU_MEMORY_40GB",)),
        ("Single port serial", ()),
        (None, ()),
    ],
)
def test_memory_and_series_are_read_off_nvidias_names_and_no_others(name: str | None, traits: tuple[str, ...]) -> None:
    assert naming.mdev_type_facts(name) == traits


def test_an_unknown_maker_is_named_by_its_id() -> None:
    assert naming.device_traits("1b36", "000d")[1] == "CUSTOM_1B36_000D"


def test_names_too_long_for_placement_are_cut_and_stay_distinct() -> None:
    first, second = naming.custom("a" * 300 + "b"), naming.custom("a" * 300 + "c")
    assert len(first) == len(second) == naming.MAX_NAME
    assert first != second
    assert VALID.fullmatch(first)
    assert naming.custom("a" * 248) == "CUSTOM_" + "A" * 248


@given(st.text())
def test_any_text_becomes_a_valid_name(text: str) -> None:
    name = naming.custom("NVIDIA", "1eb8", text)
    assert VALID.fullmatch(name)
    assert len(name) <= naming.MAX_NAME


# Type ids are directory names. The alphabet is small and awkward so that names do clash.
TYPE_IDS = st.text(st.sampled_from("aA1-_.é"), min_size=1, max_size=6)
NAMES = st.none() | st.text(st.sampled_from("aA1-_. é\n"), max_size=5) | st.text(max_size=300)


@given(st.dictionaries(TYPE_IDS, NAMES, min_size=1, max_size=12))
def test_any_types_of_one_card_get_valid_and_distinct_traits(names: dict[str, str | None]) -> None:
    traits = naming.mdev_type_traits("NVIDIA", "1eb8", names)
    assert traits.keys() == names.keys()
    assert len(set(traits.values())) == len(names)
    for one in traits.values():
        assert VALID.fullmatch(one)
        assert len(one) <= naming.MAX_NAME
    assert naming.mdev_type_traits("NVIDIA", "1eb8", dict(reversed(names.items()))) == traits
