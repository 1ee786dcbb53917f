"""``cantle config check`` finds what a service would refuse at its start."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.serving import cantle

from cantle.conf.misspelt import misspelt
from cantle.conf.repeated import repeated
from cantle.conf.sample import list_opts


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("[api]\nauth = bogus\n", "[api] auth"),
        ("[agents]\nwaiting_places = many\n", "[agents] waiting_places"),
        ("[keeper]\nevent_days = -\n", "[keeper] event_days"),
        ("[webhook]\nurl = ftp://hooks.example\n", "[webhook] url"),
        ("[placement]\nvgpu_max_unit = 0\n", "[placement] vgpu_max_unit"),
    ],
)
def test_an_option_that_serve_would_refuse_is_refused_by_the_check(tmp_path: Path, config: str, named: str) -> None:
    file = tmp_path / "cantle.conf"
    file.write_text(config, encoding="utf-8")
    done = cantle("config", "check", "--config-file", str(file), "--state-dir", str(tmp_path / "state"))
    assert (done.code, named in done.err) == (78, True), done.err


@pytest.mark.parametrize(
    ("config", "wrong", "right"),
    [
        ("[gpu_devices]\nenabled_vgpu_typs = nvidia-223\n", "[gpu_devices] enabled_vgpu_typs", "enabled_vgpu_types"),
        ("[gpu_devices]\nEnabled_Vgpu_Types = nvidia-223\n", "[gpu_devices] Enabled_Vgpu_Types", "enabled_vgpu_types"),
        ("[gpu_devices]\nenabled-vgpu-types = nvidia-223\n", "[gpu_devices] enabled-vgpu-types", "enabled_vgpu_types"),
        (
            "[gpu_devices]\nenabled_mdev_types = mtty-1\n",
            "[gpu_devices] enabled_mdev_types",
            "[devices] enabled_mdev_types",
        ),
        ("[DEFAULT]\ndevice_spec = []\n", "[DEFAULT] device_spec", "[pci] device_spec"),
        ("[placment]\nenabled = true\n", "[placment]", "placement"),
        ("[api]\nauht = none\n", "[api] auht", "auth"),
        ("[webhook]\nrul = https://hooks.example\n", "[webhook] rul", "url"),
        ("[webhook]\nurll = https://hooks.example\n", "[webhook] urll", "url"),
    ],
)
def test_a_slip_of_the_pen_in_a_name_is_told_and_not_passed_over(
    tmp_path: Path, config: str, wrong: str, right: str
) -> None:
    file = tmp_path / "cantle.conf"
    file.write_text(config, encoding="utf-8")
    done = cantle("config", "check", "--config-file", str(file), "--state-dir", str(tmp_path / "state"))
    assert done.code == 0
    assert f"warning: {file}: {wrong} is no " in done.err
    assert f"did you mean {right}?" in done.err


def test_a_slip_of_the_pen_is_told_also_where_it_makes_the_rest_wrong(tmp_path: Path) -> None:
    file = tmp_path / "cantle.conf"
    file.write_text(
        "[gpu_devices]\nenabled_vgpu_typs = nvidia-223\n[vgpu_nvidia-223]\ndevice_addresses = 0000:af:00.0\n",
        encoding="utf-8",
    )
    done = cantle("config", "check", "--config-file", str(file), "--state-dir", str(tmp_path / "state"))
    assert done.code == 78
    assert "did you mean enabled_vgpu_types?" in done.err
    assert "[config-section-without-type]" in done.err


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (
            "[vgpu_nvidia-223]\ndevice_addresses = 0000:af:00.0\n[vgpu_nvidia-223]\ndevice_addresses = 0000:86:00.0\n"
            "[gpu_devices]\nenabled_vgpu_types = nvidia-223\n",
            "[vgpu_nvidia-223] device_addresses is given 2 times; 0000:86:00.0, the last, is all that counts",
        ),
        (
            "[gpu]\nenabled_vgpu_types = nvidia-223\nenabled_vgpu_types = nvidia-224\n"
            "[vgpu_nvidia-224]\ndevice_addresses = 0000:af:00.0\n",
            "[gpu] enabled_vgpu_types is given 2 times; nvidia-224, the last, is all that counts",
        ),
        (
            "[gpu_devices]\nenabled_vgpu_types = nvidia-223\n[GPU_Devices]\nenabled_vgpu_types = nvidia-224\n"
            "[vgpu_nvidia-224]\ndevice_addresses = 0000:af:00.0\n",
            "[gpu_devices] enabled_vgpu_types is given 2 times; nvidia-224, the last, is all that counts",
        ),
        (
            "[devices]\nenabled_mdev_types = i915-GVTg_V5_4\n[mdev_i915-GVTg_V5_4]\ndevice_addresses = 0000:00:02.0\n"
            "[MDEV_i915-GVTg_V5_4]\ndevice_addresses = 0000:af:00.0\n",
            "[mdev_i915-gvtg_v5_4] device_addresses is given 2 times; 0000:af:00.0, the last, is all that counts",
        ),
    ],
)
def test_a_card_does_not_drop_out_in_silence_where_an_option_is_given_twice(
    tmp_path: Path, config: str, told: str
) -> None:
    file = tmp_path / "cantle.conf"
    file.write_text(config, encoding="utf-8")
    done = cantle("config", "check", "--config-file", str(file), "--state-dir", str(tmp_path / "state"))
    assert (done.code, f"warning: {file}: {told}" in done.err) == (0, True), done.err


def test_options_that_may_be_given_often_and_the_same_value_again_are_no_warning(tmp_path: Path) -> None:
    file = tmp_path / "cantle.conf"
    file.write_text(
        '[pci]\nalias = {"name": "a", "vendor_id": "10de"}\nalias = {"name": "b", "vendor_id": "8086"}\n'
        '[DEFAULT]\npci_alias = {"name": "c", "vendor_id": "10de"}\npci_alias = {"name": "d", "vendor_id": "8086"}\n'
        '[labels]\ncard = {"vendor_id": "10de", "rack": "r1"}\ncard = {"vendor_id": "8086", "rack": "r2"}\n'
        "[api]\nauth = none\nauth = none\n[keystone_authtoken]\nregion = a\nregion = b\n",
        encoding="utf-8",
    )
    assert list(repeated(list_opts(), [str(file)])) == []


def test_a_word_that_is_no_yes_or_no_is_told_in_words_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "cantle.conf"
    file.write_text("[gpu_devices]\nadopt_existing_mdevs = maybe\n", encoding="utf-8")
    done = cantle("config", "check", "--config-file", str(file), "--state-dir", str(tmp_path / "state"))
    said = f"adopt_existing_mdevs in {file} is not acceptable: Unexpected boolean value 'maybe' [config-file-malformed]"
    assert (done.code, said in done.err) == (78, True), done.err


def test_a_section_in_another_case_is_the_section_as_oslo_has_it(tmp_path: Path) -> None:
    file = tmp_path / "cantle.conf"
    file.write_text(
        "[GPU_Devices]\nenabled_vgpu_types = nvidia-223\n[VGPU_nvidia-223]\ndevice_addresses = 0000:af:00.0\n",
        encoding="utf-8",
    )
    done = cantle("config", "check", "--config-file", str(file), "--state-dir", str(tmp_path / "state"))
    assert (done.code, done.err) == (0, "")
    assert "Enabled types: nvidia-223." in done.out


def test_former_names_in_their_former_places_are_no_slips(tmp_path: Path) -> None:
    file = tmp_path / "cantle.conf"
    file.write_text(
        '[DEFAULT]\npci_alias = {"name": "a", "vendor_id": "10de"}\npci_passthrough_whitelist = []\nhost = gpu1\n'
        "instance_type_extra_specs = gpu_arch:fermi\n[pci]\npassthrough_whitelist = []\n",
        encoding="utf-8",
    )
    assert list(misspelt(list_opts(), [str(file)])) == []


def test_every_option_of_the_sample_and_those_of_other_projects_are_no_slips(tmp_path: Path) -> None:
    sample = cantle("config", "sample").out
    options = [
        line.lstrip("#") if line.startswith("#") and not line.startswith("# ") else line for line in sample.splitlines()
    ]
    file = tmp_path / "cantle.conf"
    others = "[keystone_authtoken]\nwww_authenticate_uri = https://keystone\n[oslo_policy]\npolicy_file = policy.yaml\n"
    login = "auth_type = password\nauth_url = x\nusername = x\npassword = x\nproject_name = x\nuser_domain_name = x\nregion_name = x\n"
    file.write_text("\n".join([*options, others, "[placement]", login, "[nova]", login]), encoding="utf-8")
    assert list(misspelt(list_opts(), [str(file)])) == []
