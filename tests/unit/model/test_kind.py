"""Each rule by which a kind of card is wrong for a group, with its code, beside the nearest kind that is right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cantle.model.kind import Kind, mismatch, tier
from cantle.model.request import RequestGroup
from cantle.model.requirement import Requirement

CARD = Kind(
    "digest",
    "PGPU",
    "passthrough",
    "10de",
    "20b0",
    "A100",
    "type-PCI",
    frozenset({"CUSTOM_A", "CUSTOM_B"}),
    {"gpu_arch": "ampere", "live_migratable": "true"},
)
SLICE = replace(CARD, resource_class="VGPU", mode="mdev", dev_type="")
PGPU = RequestGroup("group 0", (("PGPU", 1),))
ALIAS = RequestGroup("alias a1", count=1, specs=((("vendor_id", "10de"), ("product_id", "20b0")),))


def alias(**keys: str) -> RequestGroup:
    """The alias with these keys besides."""
    return replace(ALIAS, specs=(tuple({**dict(ALIAS.specs[0]), **keys}.items()),))


def traits(*names: str) -> Kind:
    """The card with these traits and no others."""
    return replace(CARD, traits=frozenset(names))


def labels(**said: str) -> Kind:
    """The card with these labels and no others."""
    return replace(CARD, labels=said)


FERMI = replace(PGPU, labels=(Requirement("gpu_arch", "s== fermi"),))
ONE_OF = replace(PGPU, any_of=(frozenset({"CUSTOM_A", "CUSTOM_C"}), frozenset({"CUSTOM_B"})))


@pytest.mark.parametrize(
    ("group", "wrong", "code", "right"),
    [
        (PGPU, SLICE, "other-class", CARD),
        (replace(PGPU, required=frozenset({"CUSTOM_A"})), traits("CUSTOM_B"), "lacks-trait", traits("CUSTOM_A")),
        (replace(PGPU, forbidden=frozenset({"CUSTOM_A"})), traits("CUSTOM_A"), "forbidden-trait", traits("CUSTOM_B")),
        (ONE_OF, traits("CUSTOM_B"), "lacks-trait", traits("CUSTOM_B", "CUSTOM_C")),
        (ONE_OF, traits("CUSTOM_A", "CUSTOM_C"), "lacks-trait", CARD),
        (FERMI, CARD, "other-label", labels(gpu_arch="fermi")),
        (FERMI, labels(), "other-label", labels(gpu_arch="fermi")),
        (ALIAS, SLICE, "no-pci", CARD),
        (ALIAS, replace(CARD, product_id="1eb8"), "other-ids", CARD),
        (ALIAS, replace(CARD, vendor_id="1002"), "other-ids", CARD),
        (ALIAS, replace(CARD, dev_type="type-PF"), "other-device-type", replace(CARD, dev_type="type-VF")),
        (alias(dev_type="type-VF"), CARD, "other-device-type", replace(CARD, dev_type="type-VF")),
        (alias(dev_type="type-PF"), CARD, "other-device-type", replace(CARD, dev_type="type-PF")),
        (ALIAS, labels(remote_managed="true"), "remote-managed", labels(remote_managed="false")),
        (alias(live_migratable="true"), labels(), "not-migratable", CARD),
        (alias(live_migratable="false"), CARD, "not-migratable", labels(live_migratable="false")),
        (alias(resource_class="CUSTOM_X"), CARD, "other-class", replace(CARD, resource_class="CUSTOM_X")),
        (alias(traits="a,b"), traits("CUSTOM_A"), "lacks-trait", CARD),
    ],
)
def test_a_kind_is_wrong_for_a_group_and_the_nearest_one_is_right(
    group: RequestGroup, wrong: Kind, code: str, right: Kind
) -> None:
    found = mismatch(group, wrong)
    assert found is not None
    assert found.code == code
    assert found.mend
    assert mismatch(group, right) is None


def test_a_group_of_several_classes_is_served_by_no_card() -> None:
    found = mismatch(replace(PGPU, amounts=(("PGPU", 1), ("VGPU", 1))), CARD)
    assert found is not None
    assert found.code == "several-classes"


def test_one_of_several_devices_of_an_alias_is_enough() -> None:
    either = replace(ALIAS, specs=((("vendor_id", "1002"), ("product_id", "1234")), ALIAS.specs[0]))
    assert mismatch(either, CARD) is None
    assert mismatch(either, replace(CARD, product_id="1eb8")) is not None


@pytest.mark.parametrize(
    ("word", "liked"),
    [
        ("20b0", True),
        ("10de:20b0", True),
        ("1002:20b0", False),
        ("a100", True),
        ("A100", True),
        ("CUSTOM_A", True),
        ("H100", False),
    ],
)
def test_a_preferred_model_is_named_by_model_id_or_trait(word: str, liked: bool) -> None:
    assert tier(replace(PGPU, prefer=("nothing", word)), CARD) == (1 if liked else 2)


def test_who_asks_for_a_type_that_a_card_is_not_cut_into_yet_is_led_to_the_card() -> None:
    wanted = frozenset({"CUSTOM_C"})
    cut = mismatch(replace(PGPU, amounts=(("VGPU", 1),), required=wanted), SLICE)
    assert cut is not None
    assert "cantle device show says whether a card waits to be cut into another type" in cut.mend
    alone = mismatch(replace(PGPU, required=wanted), CARD)
    assert alone is not None
    assert alone.mend == "ask for other traits"
