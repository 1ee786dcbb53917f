"""``cantle-policy``: what operators see of the rules."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import yaml
from click.testing import CliRunner

from cantle.api.policy import Policy
from cantle.api.policy_cli import main
from cantle.api.rules import RULES


def test_the_sample_uncommented_is_a_policy_file_with_every_rule_at_its_default(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["sample"])
    assert done.exit_code == 0
    lines = [line.removeprefix("#") for line in done.output.splitlines() if line.startswith('#"')]
    content = "\n".join(lines)
    assert yaml.safe_load(content) == {rule.name: rule.check for rule in RULES}
    file = tmp_path / "policy.yaml"
    file.write_text(content)
    Policy(str(file))


def test_the_sample_says_which_requests_a_rule_guards() -> None:
    output = CliRunner().invoke(main, ["sample"]).output
    requests = "# POST  /v2/device_profiles\n# POST  /v1/profiles\n"
    assert requests + '#"cyborg:device_profile:create": "rule:admin_api"\n' in output


def test_the_names_are_listed() -> None:
    assert CliRunner().invoke(main, ["list"]).output.splitlines() == [rule.name for rule in RULES]


def test_the_matrix_shows_which_role_passes_and_follows_the_file(tmp_path: Path) -> None:
    row = _row(CliRunner().invoke(main, ["matrix"]).output, "cyborg:device:get_all")
    assert row == ["yes", "yes", "-", "-", "-"]
    file = tmp_path / "policy.yaml"
    file.write_text('"cyborg:device:get_all": "role:reader"\n')
    row = _row(CliRunner().invoke(main, ["matrix", str(file)]).output, "cyborg:device:get_all")
    assert row == ["yes", "yes", "yes", "yes", "-"]


def test_a_member_is_shown_to_read_what_he_may_read() -> None:
    output = CliRunner().invoke(main, ["matrix"]).output
    assert _row(output, "cantle:lease:get_all") == ["yes", "yes", "yes", "yes", "-"]
    assert _row(output, "cantle:lease:create") == ["yes", "yes", "yes", "-", "-"]


def _row(output: str, rule: str) -> list[str]:
    return next(line for line in output.splitlines() if line.startswith(rule)).split()[1:]


def test_a_file_is_checked_and_a_bad_one_has_its_own_exit_code(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('"cyborg:device:get_all": "role:reader"\n')
    assert CliRunner().invoke(main, ["check", str(file)]).exit_code == 0
    file.write_text('"cyborg:device:get_al": "role:reader"\n')
    done = CliRunner().invoke(main, ["check", str(file)])
    assert done.exit_code == 78
    assert "bad-policy-file" in done.output


def test_oslos_own_tools_find_the_rules() -> None:
    """``oslopolicy-sample-generator --namespace cantle`` goes by this entry point."""
    (point,) = entry_points(group="oslo.policy.policies", name="cantle")
    assert [(rule.name, rule.check_str) for rule in point.load()()] == [(rule.name, rule.check) for rule in RULES]
