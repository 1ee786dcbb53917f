"""[nova], [webhook] and [keeper]: who is told of events, and how long things are kept."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from oslo_config import cfg

from cantle.conf import files, keeper, nova, webhook
from cantle.errors import BadConfig
from cantle.keeper.housekeeping import Ages
from cantle.model.event import Channel, Outlets

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
LOG_IN = """
[nova]
auth_type = password
auth_url = http://127.0.0.1:1/v3
username = cantle
password = words
project_name = service
user_domain_name = Default
project_domain_name = Default
"""


def load(tmp_path: Path, text: str) -> cfg.ConfigOpts:
    """A file with this content."""
    file = tmp_path / "cantle.conf"
    file.write_text(text)
    return files.read([str(file)])


def refused(tmp_path: Path, text: str) -> BadConfig:
    """What is said to it."""
    with pytest.raises(BadConfig) as caught:
        keeper.outlets(load(tmp_path, text))
    return caught.value


@pytest.mark.parametrize("text", ["", "[nova]\narq_binding_timeout = 60\n", "[nova]\nregion_name = R\n[webhook]\n"])
def test_without_a_way_to_log_in_and_without_a_url_nobody_is_told(tmp_path: Path, text: str) -> None:
    conf = load(tmp_path, text)
    assert keeper.outlets(conf) == Outlets()
    assert keeper.receivers(conf) == []


def test_nova_is_told_once_there_is_a_way_to_log_in(tmp_path: Path) -> None:
    conf = load(tmp_path, LOG_IN)
    assert keeper.outlets(conf) == Outlets(nova_waits=300.0)
    (receiver,) = keeper.receivers(conf)
    assert receiver.channel is Channel.NOVA


def test_novas_timeout_and_the_credentials_of_another_section_are_taken(tmp_path: Path) -> None:
    text = LOG_IN.replace("[nova]", "[keystone_authtoken]") + "[nova]\nauth_section = keystone_authtoken\n"
    conf = load(tmp_path, text + "arq_binding_timeout = 900\n")
    assert keeper.outlets(conf).nova_waits == 900.0
    assert len(keeper.receivers(conf)) == 1


def test_calls_to_nova_have_a_timeout_and_go_to_the_compute_service(tmp_path: Path) -> None:
    conf = load(tmp_path, LOG_IN)
    assert nova.receiver(conf) is not None
    assert (conf.nova.timeout, conf.nova.service_type) == (10, "compute")


@pytest.mark.parametrize(
    "wrong",
    ["[nova]\nauth_type = no-such\n", LOG_IN + "arq_binding_timeout = soon\n", LOG_IN + "arq_binding_timeout = 0\n"],
)
def test_a_wrong_section_of_nova_is_refused_at_the_start(tmp_path: Path, wrong: str) -> None:
    conf = load(tmp_path, wrong)
    with pytest.raises(BadConfig) as caught:
        _ = (keeper.outlets(conf), keeper.receivers(conf))
    assert caught.value.code == "bad-option"
    assert "[nova]" in caught.value.message


def test_a_webhook_has_a_place_and_keys(tmp_path: Path) -> None:
    conf = load(
        tmp_path, f"[webhook]\nurl = https://hooks.example/a?b=c\nsecret = {SECRET} {SECRET}\nkeep_trying = 1\n"
    )
    target = webhook.target(conf)
    assert target is not None
    assert (target.url, target.secrets, target.keep_trying_s) == ("https://hooks.example/a?b=c", (KEY, KEY), 3600.0)
    assert keeper.outlets(conf) == Outlets(webhook=True)
    (receiver,) = keeper.receivers(conf)
    assert receiver.channel is Channel.WEBHOOK


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "words",
        "whsec_",
        "whsec_!!!!",
        base64.b64encode(KEY).decode(),
        "whsec_" + base64.b64encode(b"short").decode(),
    ],
)
def test_a_key_that_is_none_is_refused_and_not_repeated(tmp_path: Path, secret: str) -> None:
    error = refused(tmp_path, f"[webhook]\nurl = https://hooks.example\nsecret = {secret}\n")
    assert error.code == "bad-webhook-secret"
    assert not secret or secret == "whsec_" or secret not in error.message


@pytest.mark.parametrize(
    "url", ["https://", "https://u:p@hooks.example/", "https://hooks.example/#x", "http://h:99999/"]
)
def test_a_place_that_is_none_is_refused_and_a_password_not_repeated(tmp_path: Path, url: str) -> None:
    error = refused(tmp_path, f"[webhook]\nurl = {url}\nsecret = {SECRET}\n")
    assert error.code in ("bad-webhook-url", "bad-option")
    assert "u:p" not in error.message


def test_ages_come_from_the_keepers_section(tmp_path: Path) -> None:
    assert keeper.ages(load(tmp_path, "")) == Ages()
    chosen = keeper.ages(
        load(tmp_path, "[keeper]\nunbound_hours = 0\nlease_days = 5\nevent_days = 1\nkey_hours = 2\nowner_days = 30\n")
    )
    assert chosen == Ages(unbound_hours=0, lease_days=5, event_days=1, key_hours=2, owner_days=30)
    with pytest.raises(BadConfig) as caught:
        keeper.ages(load(tmp_path, "[keeper]\nunbound_hours = -1\n"))
    assert caught.value.code == "bad-option"


def test_every_option_is_in_the_sample() -> None:
    groups = {group for module in (keeper, nova, webhook) for group, _ in module.list_opts()}
    assert groups == {"keeper", "nova", "webhook"}
