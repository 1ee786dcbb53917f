"""``cantle config check`` finds what a service would refuse at its start."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.serving import cantle

from cantle.conf.misspelt import misspelt


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("[api]\nauth = bogus\n", "[api] auth"),
        ("[agents]\nwaiting_places = many\n", "[agents] waiting_places"),
        ("[keeper]\nevent_days = -\n", "[keeper] event_days"),
        ("[webhook]\nurl = ftp://hooks.example\n", "[webhook] url"),
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
        ("[placment]\nenabled = true\n", "[placment]", "placement"),
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


def test_every_option_of_the_sample_and_those_of_other_projects_are_no_slips(tmp_path: Path) -> None:
    sample = cantle("config", "sample").out
    options = [
        line.lstrip("#") if line.startswith("#") and not line.startswith("# ") else line for line in sample.splitlines()
    ]
    file = tmp_path / "cantle.conf"
    others = "[keystone_authtoken]\nwww_authenticate_uri = https://keystone\n[oslo_policy]\npolicy_file = policy.yaml\n"
    login = "auth_type = password\nauth_url = x\nusername = x\npassword = x\nproject_name = x\nuser_domain_name = x\nregion_name = x\n"
    file.write_text("\n".join([*options, others, "[placement]", login, "[nova]", login]), encoding="utf-8")
    assert list(misspelt([str(file)])) == []
