"""``[placement]``: off unless it says how to log in; every mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from oslo_config import cfg

from cantle.conf import files, placement
from cantle.errors import BadConfig


def conf(tmp_path: Path, text: str) -> cfg.ConfigOpts:
    """A configuration of one file."""
    file = tmp_path / "cantle.conf"
    file.write_text(text)
    return files.read([str(file)])


@pytest.mark.parametrize("text", ["", "[placement]\n", "[placement]\nvgpu_max_unit = 2\n"])
def test_without_a_way_to_log_in_nothing_is_published(tmp_path: Path, text: str) -> None:
    assert placement.publishing(conf(tmp_path, text)) is None


def test_the_section_is_written_as_novas_and_cyborgs(tmp_path: Path) -> None:
    made = placement.publishing(
        conf(
            tmp_path,
            "[placement]\nauth_type = password\nauth_url = http://keystone.invalid/v3\nusername = cantle\npassword = x\n"
            "project_name = service\nuser_domain_id = default\nproject_domain_id = default\nregion_name = RegionOne\n"
            "provider_names = c7:rack-3, c8:rack-4\nhost_domain = .example.org\nmissing_grace = 60\n",
        )
    )
    assert made is not None
    settings = made.settings
    assert settings.names_of("c7") == ("rack-3",)
    assert settings.names_of("c9") == ("c9.example.org", "c9")
    assert settings.names_of("c9.example.net") == ("c9.example.net", "c9")
    assert settings.missing_grace_s == 60.0


def test_a_login_that_lacks_something_is_refused_with_the_section(tmp_path: Path) -> None:
    with pytest.raises(BadConfig) as refused:
        placement.publishing(conf(tmp_path, "[placement]\nauth_type = there-is-none\n"))
    assert refused.value.code == "bad-option"
    assert "[placement]" in refused.value.message


def test_a_number_out_of_range_is_refused_with_section_and_option(tmp_path: Path) -> None:
    with pytest.raises(BadConfig) as refused:
        placement.settings(conf(tmp_path, "[placement]\nvgpu_max_unit = 0\n"))
    assert "[placement] vgpu_max_unit" in refused.value.message


def test_the_sample_generator_sees_every_option() -> None:
    assert {option.name for _group, options in placement.list_opts() for option in options} == {
        option.name for option in placement.OPTIONS
    }
