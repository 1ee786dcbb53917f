"""Configuration of mediated types as operators write it, in both services' spellings, with every error named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.conf import devices
from cantle.errors import BadConfig
from cantle.model.enabled_types import EnabledType, EnabledTypes
from cantle.model.pci import PciAddress

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str) -> str:
        path = tmp_path / "cantle.conf"
        path.write_text(text)
        return str(path)

    return write


def refused(path: str, parent_exists: Callable[[str], bool] | None = None) -> list[dict[str, str | None]]:
    with pytest.raises(BadConfig) as caught:
        devices.load([path], parent_exists=parent_exists)
    errors = caught.value.details["errors"]
    assert isinstance(errors, list)
    assert caught.value.code == (errors[0]["code"] if len(errors) == 1 else "config-invalid")
    for error in errors:
        assert error["message"] in caught.value.message
    return errors


@pytest.mark.parametrize("section", ["gpu_devices", "gpu", "devices"])
@pytest.mark.parametrize("prefix", ["vgpu", "mdev"])
def test_the_seeds_configuration_is_read_in_all_its_spellings(write: Write, section: str, prefix: str) -> None:
    loaded = devices.load(
        [
            write(
                f"[{section}]\nenabled_vgpu_types = nvidia-223,nvidia-224\n"
                f"[{prefix}_nvidia-223]\ndevice_addresses = 0000:af:00.0,0000:86:00.0\n"
                f"[{prefix}_nvidia-224]\ndevice_addresses = 0000:87:00.0\n"
            )
        ]
    )
    assert loaded == EnabledTypes(
        (
            EnabledType("nvidia-223", "VGPU", ("0000:af:00.0", "0000:86:00.0")),
            EnabledType("nvidia-224", "VGPU", ("0000:87:00.0",)),
        )
    )
    assert loaded.named("0000:86:00.0") == loaded.types[0]
    assert loaded.named("0000:88:00.0") is None
    assert loaded.default is None


def test_a_list_in_brackets_as_the_seed_writes_it_is_the_same_list(write: Write) -> None:
    text = (
        "[gpu_devices]\nenabled_vgpu_types = [nvidia-223, nvidia-224]\n"
        "[vgpu_nvidia-223]\ndevice_addresses = [0000:af:00.0]\n[vgpu_nvidia-224]\ndevice_addresses = 0000:87:00.0\n"
    )
    loaded = devices.load([write(text)])
    assert [(one.type_id, one.addresses) for one in loaded.types] == [
        ("nvidia-223", ("0000:af:00.0",)),
        ("nvidia-224", ("0000:87:00.0",)),
    ]


def test_a_slip_of_the_pen_is_a_warning_that_servers_and_agents_log_at_their_start(write: Write) -> None:
    path = write("[gpu_devices]\nenabled_vgpu_typs = nvidia-223\n[pci]\ndevice_spek = []\n[api]\nport = 6666\n")
    first, second = devices.load([path]).warnings
    assert first.startswith(f"{path}: [gpu_devices] enabled_vgpu_typs is no option of Cantle and has no effect;")
    assert second.startswith(f"{path}: [pci] device_spek is no option of Cantle")


def test_novas_configuration_with_classes_and_limits_is_read(write: Write) -> None:
    loaded = devices.load(
        [
            write(
                "[devices]\nenabled_mdev_types = nvidia-35, mlx5_core-local, mtty-2\n"
                "[mdev_nvidia-35]\ndevice_addresses = 0000:84:00.0\nmdev_class = VGPU\nmax_instances = 30\n"
                "[mdev_mlx5_core-local]\ndevice_addresses = 0000:86:00.0\nmdev_class = mlx5\n"
                "[mdev_mtty-2]\ndevice_addresses = mtty_mtty\nmdev_class = CUSTOM_MTTY\n"
            )
        ]
    )
    assert loaded.types == (
        EnabledType("nvidia-35", "VGPU", ("0000:84:00.0",), 30),
        EnabledType("mlx5_core-local", "CUSTOM_MLX5", ("0000:86:00.0",)),
        EnabledType("mtty-2", "CUSTOM_MTTY", ("mtty_mtty",)),
    )


@pytest.mark.parametrize(
    ("spelling", "resource_class"),
    [
        ("vgpu", "VGPU"),
        ("VGPU", "VGPU"),
        ("mlx5", "CUSTOM_MLX5"),
        ("MLX5", "CUSTOM_MLX5"),
        ("CUSTOM_MLX5", "CUSTOM_MLX5"),
        ("x" * 248, "CUSTOM_" + "X" * 248),
    ],
)
def test_both_spellings_of_a_class_mean_the_same(write: Write, spelling: str, resource_class: str) -> None:
    loaded = devices.load([write(f"[devices]\nenabled_mdev_types = a-1\n[mdev_a-1]\nmdev_class = {spelling}\n")])
    assert loaded.types[0].resource_class == resource_class


def test_under_devices_a_type_without_addresses_is_the_default_and_a_second_one_is_not_used(write: Write) -> None:
    loaded = devices.load(
        [
            write(
                "[devices]\nenabled_mdev_types = nvidia-35,nvidia-36,nvidia-37\n[mdev_nvidia-37]\ndevice_addresses = 0000:86:00.0\n"
            )
        ]
    )
    assert loaded.default == EnabledType("nvidia-35")
    assert [one.type_id for one in loaded.types] == ["nvidia-35", "nvidia-37"]
    assert len(loaded.warnings) == 1
    assert "nvidia-36" in loaded.warnings[0]


def test_addresses_are_compared_by_value_and_not_by_text(write: Write) -> None:
    loaded = devices.load(
        [
            write(
                "[gpu]\nenabled_vgpu_types = a-1\n[vgpu_a-1]\ndevice_addresses = AF:00.0, 0000:af:00.0, 00000000:AF:00.0\n"
            )
        ]
    )
    assert loaded.types[0].addresses == ("0000:af:00.0",)


def test_cards_without_their_type_are_withheld_unless_the_option_says_otherwise(write: Write) -> None:
    assert not devices.load([write("")]).whole_if_not_offered
    assert devices.load([write("[gpu_devices]\nwhole_if_type_not_offered = yes\n")]).whole_if_not_offered
    with pytest.raises(BadConfig) as caught:
        devices.load([write("[gpu_devices]\nwhole_if_type_not_offered = perhaps\n")])
    assert "perhaps" in caught.value.message


@pytest.mark.parametrize("section", ["gpu_devices", "devices"])
def test_what_others_made_is_adopted_only_where_the_configuration_says_so(write: Write, section: str) -> None:
    assert not devices.load([write("")]).adopt
    assert devices.load([write(f"[{section}]\nadopt_existing_mdevs = true\n")]).adopt


def test_the_sample_generator_is_told_every_option() -> None:
    listed = {(section, option.name) for section, options in devices.list_opts() for option in options}
    assert {("gpu_devices", "enabled_vgpu_types"), ("devices", "enabled_mdev_types")} <= listed
    assert {
        ("gpu_devices", "whole_if_type_not_offered"),
        ("devices", "adopt_existing_mdevs"),
        ("vgpu_nvidia-223", "max_instances"),
    } <= listed


def test_a_type_enabled_twice_counts_once_and_by_the_stricter_section(write: Write) -> None:
    errors = refused(write("[devices]\nenabled_mdev_types = a-1,a-1\n[gpu_devices]\nenabled_vgpu_types = a-1\n"))
    assert [error["code"] for error in errors] == ["config-type-without-section"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[gpu_devices]\nenabled_vgpu_types = a-1\n[vgpu_a-1]\ndevice_addresses =\n",
            ("config-type-without-addresses", "vgpu_a-1", "device_addresses", ""),
        ),
        (
            "[gpu_devices]\nenabled_vgpu_types = a-1\n",
            ("config-type-without-section", "gpu_devices", "enabled_vgpu_types", "a-1"),
        ),
        (
            "[gpu]\nenabled_vgpu_types = a-1,a-2\n[vgpu_a-1]\ndevice_addresses = 0000:af:00.0\n"
            "[vgpu_a-2]\ndevice_addresses = AF:00.0\n",
            ("config-address-two-types", "vgpu_a-2", "device_addresses", "0000:af:00.0"),
        ),
        (
            "[gpu_devices]\nenabled_vgpu_types = a-1\n[vgpu_a-1]\ndevice_addresses = 0000:af:00\n",
            ("config-address-malformed", "vgpu_a-1", "device_addresses", "0000:af:00"),
        ),
        (
            "[gpu_devices]\nenabled_vgpu_types = a-1\n[vgpu_a-1]\ndevice_addresses = mtty_mtty\n",
            ("config-address-malformed", "vgpu_a-1", "device_addresses", "mtty_mtty"),
        ),
        (
            "[devices]\nenabled_mdev_types = a-1\n[mdev_a-1]\ndevice_addresses = ../etc\n",
            ("config-address-malformed", "mdev_a-1", "device_addresses", "../etc"),
        ),
        ("[vgpu_a-1]\ndevice_addresses = 0000:af:00.0\n", ("config-section-without-type", "vgpu_a-1", None, None)),
        (
            "[devices]\nenabled_mdev_types = a/../b\n",
            ("config-type-malformed", "devices", "enabled_mdev_types", "a/../b"),
        ),
        (
            "[devices]\nenabled_mdev_types = a-1\n[mdev_a-1]\nmdev_class = gpu-x\n",
            ("config-class-malformed", "mdev_a-1", "mdev_class", "gpu-x"),
        ),
        (
            f"[devices]\nenabled_mdev_types = a-1\n[mdev_a-1]\nmdev_class = {'x' * 249}\n",
            ("config-class-malformed", "mdev_a-1", "mdev_class", "x" * 249),
        ),
        (
            "[devices]\nenabled_mdev_types = a-1\n[mdev_a-1]\nmax_instances = 0\n",
            ("config-max-instances-malformed", "mdev_a-1", "max_instances", "0"),
        ),
        (
            "[devices]\nenabled_mdev_types = a-1\n[mdev_a-1]\ndevice_adresses = 0000:af:00.0\n",
            ("config-option-unknown", "mdev_a-1", "device_adresses", "0000:af:00.0"),
        ),
        (
            "[devices]\nenabled_mdev_types = a-1\n[mdev_a-1]\nmax_instances = 1\n[vgpu_a-1]\nmax_instances = 2\n",
            ("config-option-twice", "vgpu_a-1", "max_instances", "2"),
        ),
    ],
)
def test_each_error_names_file_section_option_and_value(
    write: Write, text: str, expected: tuple[str | None, ...]
) -> None:
    path = write(text)
    [error] = refused(path)
    assert tuple(error[fact] for fact in ("code", "section", "option", "value")) == expected
    assert error["file"] == path


@pytest.mark.parametrize(
    ("option", "one", "other"),
    [
        ("mdev_class", "mlx5", "CUSTOM_MLX5"),
        ("mdev_class", "vgpu", "VGPU"),
        ("device_addresses", "0000:AF:00.0,mtty", "mtty,af:00.0"),
        ("max_instances", "2", "02"),
    ],
)
def test_two_sections_of_a_type_that_say_the_same_in_other_words_do_not_contradict_each_other(
    write: Write, option: str, one: str, other: str
) -> None:
    text = f"[devices]\nenabled_mdev_types = a-1\n[mdev_a-1]\n{option} = {one}\n"
    alone = devices.load([write(text)])
    assert devices.load([write(f"{text}[vgpu_a-1]\n{option} = {other}\n")]) == alone


@pytest.mark.parametrize(
    ("option", "one", "other"),
    [
        ("mdev_class", "mlx5", "CUSTOM_MLX6"),
        ("mdev_class", "CUSTOM_", ""),
        ("device_addresses", "0000:af:00.0", "0000:af:00.1"),
        ("max_instances", "2", "two"),
    ],
)
def test_two_sections_of_a_type_that_mean_two_things_are_refused(
    write: Write, option: str, one: str, other: str
) -> None:
    errors = refused(
        write(f"[devices]\nenabled_mdev_types = a-1\n[mdev_a-1]\n{option} = {one}\n[vgpu_a-1]\n{option} = {other}\n")
    )
    assert ("config-option-twice", "vgpu_a-1", option) in [
        tuple(one[f] for f in ("code", "section", "option")) for one in errors
    ]


def test_a_section_spelt_in_another_case_than_its_type_is_pointed_out(write: Write) -> None:
    errors = refused(
        write("[gpu]\nenabled_vgpu_types = i915-GVTg_V5_8\n[vgpu_i915-gvtg_v5_8]\ndevice_addresses = 0000:00:02.0\n")
    )
    assert [error["code"] for error in errors] == ["config-section-without-type", "config-type-without-section"]
    assert "i915-GVTg_V5_8 is: spell them the same" in str(errors[0]["message"])


def test_a_bad_file_gives_one_error_that_lists_them_all(write: Write) -> None:
    errors = refused(
        write(
            "[gpu_devices]\nenabled_vgpu_types = a-1,a-2,a-3\n[vgpu_a-1]\ndevice_addresses = nonsense:0\nmdev_class = -\n"
            "[vgpu_a-2]\nmax_instances = many\n[vgpu_a-4]\ndevice_addresses = 0000:af:00.0\n"
        )
    )
    assert sorted(str(error["code"]) for error in errors) == [
        "config-address-malformed",
        "config-class-malformed",
        "config-max-instances-malformed",
        "config-section-without-type",
        "config-type-without-addresses",
        "config-type-without-section",
    ]


def test_a_parent_that_is_no_pci_function_must_exist_where_a_host_is_at_hand(write: Write) -> None:
    path = write("[devices]\nenabled_mdev_types = mtty-2\n[mdev_mtty-2]\ndevice_addresses = mtty_mtty\n")
    assert devices.load([path], parent_exists=lambda name: name == "mtty_mtty").types[0].addresses == ("mtty_mtty",)
    [error] = refused(path, parent_exists=lambda _: False)
    assert error["code"] == "config-parent-unknown"


def test_a_later_file_overrides_an_earlier_one(tmp_path: Path) -> None:
    first, second = tmp_path / "a.conf", tmp_path / "b.conf"
    first.write_text("[gpu]\nenabled_vgpu_types = a-1\n[vgpu_a-1]\ndevice_addresses = 0000:af:00.0\n")
    second.write_text("[vgpu_a-1]\ndevice_addresses = 0000:b0:00.0\n")
    assert devices.load([str(first), str(second)]).types == (EnabledType("a-1", addresses=("0000:b0:00.0",)),)


def test_the_files_of_a_directory_override_the_main_file_in_the_order_of_their_names(tmp_path: Path) -> None:
    main, directory = tmp_path / "cantle.conf", tmp_path / "cantle.conf.d"
    directory.mkdir()
    main.write_text("[gpu]\nenabled_vgpu_types = a-1\n[vgpu_a-1]\ndevice_addresses = 0000:af:00.0\n")
    (directory / "20.conf").write_text("[vgpu_a-1]\ndevice_addresses = 0000:b2:00.0\n")
    (directory / "10.conf").write_text("[vgpu_a-1]\ndevice_addresses = 0000:b1:00.0\n")
    (directory / "ignored.txt").write_text("[vgpu_a-1]\ndevice_addresses = 0000:b3:00.0\n")
    loaded = devices.load([str(main)], [str(directory)])
    assert loaded.types == (EnabledType("a-1", addresses=("0000:b2:00.0",)),)
    (directory / "30.conf").write_text("[vgpu_a-1]\ndevice_adress = 0000:b4:00.0\n")
    with pytest.raises(BadConfig) as caught:
        devices.load([str(main)], [str(directory)])
    assert caught.value.code == "config-option-unknown"


def test_no_files_and_empty_files_enable_nothing(write: Write) -> None:
    assert devices.load([]) == EnabledTypes()
    assert devices.load([write("")]) == EnabledTypes()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match=r"no configuration file .*absent\.conf") as caught:
        devices.load([str(tmp_path / "absent.conf")])
    assert caught.value.code == "config-file-missing"


@pytest.mark.parametrize(
    "text", ["enabled_vgpu_types = a-1\n", "[gpu\n", "[gpu]\nenabled_vgpu_types = $nothing\n", "[gpu]\n\xff\xfe"]
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "odd.conf"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadConfig) as caught:
        devices.load([str(path)])
    assert caught.value.code == "config-file-malformed"


def test_a_directory_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfig) as caught:
        devices.load([str(tmp_path)])
    assert caught.value.code == "config-file-malformed"
    assert os.path.basename(tmp_path) in caught.value.message


@given(st.text(st.sampled_from("[]=_:.,-/ \nabcdevgpumtyns0123af$#"), max_size=200))
def test_any_text_loads_or_is_refused_as_bad_configuration(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.conf"
    path.write_text("[devices]\nenabled_mdev_types = a-1\n" + text)
    try:
        loaded = devices.load([str(path)])
    except BadConfig:
        return
    assert all(one.addresses or one is loaded.default for one in loaded.types)


@given(
    st.lists(st.builds(PciAddress, st.integers(0, 0xFFFFF), st.integers(0, 255), st.integers(0, 31), st.integers(0, 7)))
)
def test_every_spelling_of_an_address_finds_its_type(
    tmp_path_factory: pytest.TempPathFactory, addresses: list[PciAddress]
) -> None:
    path = tmp_path_factory.getbasetemp() / "addresses.conf"
    written = ", ".join(str(address).upper() for address in addresses)
    path.write_text(f"[devices]\nenabled_mdev_types = a-1\n[mdev_a-1]\ndevice_addresses = {written}\n")
    loaded = devices.load([str(path)])
    for address in addresses:
        assert loaded.named(str(address)) == loaded.types[0]


def test_memory_and_series_are_traits_only_if_asked_for(write: Write) -> None:
    assert not devices.load([write("[devices]\n")]).type_facts
    assert devices.load([write("[devices]\nmemory_and_series_traits = true\n")]).type_facts
