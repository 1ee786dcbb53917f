"""What a device profile may say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.errors import BadRequest
from cantle.model.profile import MAX_UNITS, check_groups, check_name, units

GOOD = [
    ([{"resources:VGPU": 1}], ({"resources:VGPU": "1"},)),
    ([{"resources: FPGA ": " 02 "}], ({"resources:FPGA": "2"},)),
    (
        [{"resources:CUSTOM_QAT": "1", "accel:function_id": "abc"}],
        ({"resources:CUSTOM_QAT": "1", "accel:function_id": "abc"},),
    ),
    (
        [{"resources:PGPU": "1", "trait: HW_GPU_API_VULKAN": "required"}],
        ({"resources:PGPU": "1", "trait:HW_GPU_API_VULKAN": "required"},),
    ),
    (
        [{"resources:PGPU": "1", "trait:OWNER_CYBORG": "forbidden"}],
        ({"resources:PGPU": "1", "trait:OWNER_CYBORG": "forbidden"},),
    ),
    (({"resources:GPU": "1", "accel:retries": 3},), ({"resources:GPU": "1", "accel:retries": "3"},)),
]


@pytest.mark.parametrize(("groups", "kept"), GOOD)
def test_groups_are_kept_as_strings_without_stray_spaces(groups: object, kept: object) -> None:
    assert check_groups(groups) == kept


@pytest.mark.parametrize("resource_class", ["FPGA", "PGPU", "VGPU"])
def test_s3_9_fpga_and_pgpu_are_classes_beside_vgpu(resource_class: str) -> None:
    assert check_groups([{f"resources:{resource_class}": "1"}]) == ({f"resources:{resource_class}": "1"},)


BAD: list[tuple[object, str]] = [
    (None, "needs groups"),
    ([], "needs groups"),
    ("x", "needs groups"),
    ({}, "needs groups"),
    ([7], "Group 0 is 7"),
    ([{}], "Group 0 asks for no resources"),
    ([{"resources:VGPU": "1"}, {"trait:CUSTOM_A": "required"}], "Group 1 asks for no resources"),
    ([{"resources:VGPU": "0"}], "asks for '0' of VGPU"),
    ([{"resources:VGPU": -3}], "asks for -3 of VGPU"),
    ([{"resources:VGPU": "1.5"}], "asks for '1.5'"),
    ([{"resources:VGPU": 1.0}], "asks for 1.0"),
    ([{"resources:VGPU": True}], "asks for True"),
    ([{"resources:VGPU": None}], "asks for None"),
    ([{"resources:VGPU": "\u0661"}], "asks for"),
    ([{"resources:VGPU": "9" * 400}], "asks for"),
    ([{"resources:VGPU": "+1"}], "asks for '+1'"),
    ([{"resources:VGPU": "1_0"}], "asks for '1_0'"),
    ([{"resources:VCPU": "1"}], "resource class 'VCPU'"),
    ([{"resources:PCI_DEVICE": "1"}], "resource class 'PCI_DEVICE'"),
    ([{"resources:CUSTOM_": "1"}], "resource class 'CUSTOM_'"),
    ([{"resources:CUSTOM_x": "1"}], "resource class 'CUSTOM_x'"),
    ([{"resources:": "1"}], "resource class ''"),
    ([{"resources1:VGPU": "1"}], "key 'resources1:VGPU'"),
    ([{"VGPU": "1"}], "key 'VGPU'"),
    ([{5: "1"}], "key 5"),
    ([{"resources:VGPU": "1", "accel:": "x"}], "key 'accel:'"),
    ([{"resources:VGPU": "1", "accel:x": None}], "accel:x is None"),
    ([{"resources:VGPU": "1", "accel:x": {"a": 1}}], "accel:x is"),
    ([{"resources:VGPU": "1", "trait:FAST": "required"}], "trait 'FAST'"),
    ([{"resources:VGPU": "1", "trait:CUSTOM_a": "required"}], "trait 'CUSTOM_a'"),
    ([{"resources:VGPU": "1", "trait:CUSTOM_" + "A" * 250: "required"}], "at most 255 long"),
    ([{"resources:VGPU": "1", "trait:CUSTOM_A": "maybe"}], "'maybe' of the trait CUSTOM_A"),
    ([{"resources:VGPU": "1", "trait:CUSTOM_A": True}], "True of the trait"),
    ([{"resources:VGPU": "1", "resources: VGPU": "2"}], "resources:VGPU twice"),
    ([{"resources:VGPU": str(MAX_UNITS)}, {"resources:VGPU": "1"}], "ask for 257 accelerators"),
]


@pytest.mark.parametrize(("groups", "words"), BAD)
def test_groups_that_cannot_be_are_refused_naming_the_place(groups: object, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        check_groups(groups)
    assert caught.value.code == "bad-profile-groups"
    assert words in caught.value.message
    assert len(caught.value.message) < 300


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
entries = st.dictionaries(
    st.sampled_from(["resources:VGPU", "resources: PGPU", "resources:VCPU", "trait:CUSTOM_A", "accel:x", "x"]),
    st.sampled_from(["1", 2, "0", "-1", "required", None]),
)


@given(json | st.lists(entries))
def test_whatever_is_sent_is_kept_or_refused(groups: object) -> None:
    try:
        kept = check_groups(groups)
    except BadRequest:
        return
    assert check_groups(kept) == kept
    assert 1 <= len(units(kept)) <= MAX_UNITS


@pytest.mark.parametrize("name", ["a", "A-b_9", "x" * 255])
def test_names_that_may_be(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", " ", "a b", "a.b", "a\n", "x" * 256, None, 3, "é"])
def test_names_that_may_not_be(name: object) -> None:
    with pytest.raises(BadRequest):
        check_name(name)
