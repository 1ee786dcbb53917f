"""The sample files beside the deployment guide are those of this version, and can be used as they are."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from tests.unit.house.checkout import CHECKOUT

from cantle.api.policy import Policy
from cantle.api.rules import RULES
from cantle.api.settings import Settings
from cantle.cli.main import run
from cantle.conf import api, files, keeper, sample
from cantle.keeper.housekeeping import Ages
from cantle.model.event import Outlets

DEPLOY = CHECKOUT / "docs" / "deploy"
OPTION = re.compile(r"^#([a-z_]+) = (\S.*)$", re.MULTILINE)


def test_the_samples_are_those_of_this_version() -> None:
    """After a change of an option, a rule or a route: ``.venv/bin/python tools/samples.py``."""
    spec = importlib.util.spec_from_file_location("samples", CHECKOUT / "tools" / "samples.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    stale = [path.name for path, text in made.files().items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "python tools/samples.py writes them anew"


def test_every_option_is_explained() -> None:
    options = [(section, option) for section, listed in sample.list_opts() for option in listed]
    assert [(section, option.name) for section, option in options if len((option.help or "").split()) < 4] == []


@pytest.mark.parametrize("uncommented", [False, True])
def test_a_service_starts_with_the_sample_as_with_no_file(tmp_path: Path, uncommented: bool) -> None:
    text = (DEPLOY / "cantle.conf.sample").read_text(encoding="utf-8")
    if uncommented:
        text = OPTION.sub(r"\1 = \2", text)
    file = tmp_path / "cantle.conf"
    file.write_text(text, encoding="utf-8")
    conf = files.read([str(file)])
    assert api.public_settings(conf) == Settings(policy_file=str(tmp_path / "policy.yaml"))
    assert keeper.ages(conf) == Ages()
    assert keeper.outlets(conf) == Outlets()


def test_the_command_prints_it_and_finds_nothing_wrong_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["config", "sample"]) == 0
    (tmp_path / "cantle.conf").write_text(capsys.readouterr().out, encoding="utf-8")
    assert run(["config", "check", "--config-file", f"{tmp_path}/cantle.conf", "--state-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""


def test_the_sample_of_the_policy_has_every_rule_and_can_be_used(tmp_path: Path) -> None:
    text = (DEPLOY / "policy.yaml.sample").read_text(encoding="utf-8")
    assert re.findall(r'^#"([a-z_:]+)":', text, re.MULTILINE) == [rule.name for rule in RULES]
    file = tmp_path / "policy.yaml"
    file.write_text(re.sub(r'^#"', '"', text, flags=re.MULTILINE), encoding="utf-8")
    Policy(str(file))
