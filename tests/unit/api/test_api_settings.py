"""Options of the configuration file become settings; the deployment sample is one that can be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from cantle.api.settings import Auth, Settings
from cantle.conf import api, files
from cantle.errors import BadConfig

SAMPLE = Path(__file__).parents[3] / "docs" / "deploy" / "cantle.conf"


def load(tmp_path: Path, text: str) -> Settings:
    """The clients' settings of a file with this content."""
    file = tmp_path / "cantle.conf"
    file.write_text(text)
    return api.public_settings(files.read([str(file)]))


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path, "") == Settings(policy_file=str(tmp_path / "policy.yaml"))


def test_no_file_at_all_gives_the_defaults() -> None:
    conf = files.read([])
    assert api.public_settings(conf) == Settings()


def test_options_become_settings(tmp_path: Path) -> None:
    chosen = load(
        tmp_path,
        """
        [api]
        public_endpoint = https://cloud.example/accelerator/
        trust_forwarded_headers = true
        allow_remote = true
        allowed_hosts = a.example, b.example
        max_body_bytes = 2048
        max_page = 10
        waiting_places = 3
        longest_wait = 30
        require_owner_trait = yes
        [oslo_policy]
        policy_file = /srv/policy.yaml
        """.replace("        ", ""),
    )
    assert chosen == Settings(
        public_endpoint="https://cloud.example/accelerator",
        trust_forwarded=True,
        allow_remote=True,
        allowed_hosts=("a.example", "b.example"),
        body_limit=2048,
        page_limit=10,
        parked_slots=3,
        longest_wait=30,
        require_owner_trait=True,
        policy_file="/srv/policy.yaml",
    )


def test_agents_have_settings_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "cantle.conf"
    file.write_text("[agents]\ntoken = s3cret\nmax_report_bytes = 4096\nwaiting_places = 7\n")
    chosen = api.agents_settings(files.read([str(file)]))
    assert (chosen.agents_token, chosen.report_limit, chosen.parked_slots, chosen.auth) == (
        "s3cret",
        4096,
        7,
        Auth.NONE,
    )


@pytest.mark.parametrize(
    "line",
    [
        "auth = magic",
        "max_page = 0",
        "max_page = many",
        "max_body_bytes = 5",
        "allow_remote = perhaps",
        "public_endpoint = cloud.example",
        "public_endpoint = https://cloud.example/?x=1",
        "public_endpoint = https://cloud.example/v2/",
        "longest_wait = $nothing",
    ],
)
def test_a_value_that_is_none_is_refused_by_section_and_name(tmp_path: Path, line: str) -> None:
    with pytest.raises(BadConfig) as refusal:
        load(tmp_path, f"[api]\n{line}\n")
    assert refusal.value.code == "bad-option"
    assert f"[api] {line.partition(' ')[0]}" in refusal.value.message


def test_the_database_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfig) as refusal:
        api.database_url(files.read([]))
    assert refusal.value.code == "database-not-configured"


def test_the_deployment_sample_can_be_used_as_it_stands() -> None:
    conf = files.read([str(SAMPLE)])
    chosen = api.public_settings(conf)
    assert (chosen.auth, chosen.trust_forwarded, chosen.require_owner_trait) == (Auth.KEYSTONE, True, True)
    assert api.agents_settings(conf).agents_token == "SECRET"
    assert api.database_url(conf).startswith("postgresql://")


def test_the_usual_places_are_read_unless_the_environment_names_others(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("")
    assert files.usual_places({"CANTLE_CONFIG": f"{file}:{tmp_path}"}) == ([str(file)], [str(tmp_path)])
    with pytest.raises(BadConfig, match="CANTLE_CONFIG"):
        files.usual_places({"CANTLE_CONFIG": str(tmp_path / "b.conf")})


def test_a_file_that_may_not_be_read_is_said_so(tmp_path: Path) -> None:
    """A directory in a file's place cannot be read even by root."""
    with pytest.raises(BadConfig) as refusal:
        files.read([str(tmp_path)])
    assert refusal.value.code in {"config-file-malformed", "config-file-unreadable"}


def test_every_option_is_explained_to_operators() -> None:
    for group, options in api.list_opts():
        for option in options:
            assert option.help, f"[{group}] {option.name}"
            assert option.help.endswith(".")
