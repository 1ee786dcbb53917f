"""``[webhook]``: an HTTP server that is told of what happens to requests and leases."""

from __future__ import annotations

import base64
import binascii
from urllib.parse import urlsplit

from oslo_config import cfg

from cantle.conf.values import read
from cantle.errors import BadConfig
from cantle.keeper.webhook import Target

GROUP = "webhook"

OPTIONS = (
    cfg.URIOpt(
        "url",
        schemes=["http", "https"],
        help="Where events are posted to, in the form of Standard Webhooks. Unset, nobody is told.",
    ),
    cfg.StrOpt(
        "secret",
        secret=True,
        help="The key that events are signed with: whsec_ and then base64 of 24 to 64 random bytes, such as the output of "
        "'echo whsec_$(openssl rand -base64 32)'. Several, separated by spaces, each make a signature: that is how a key is changed.",
    ),
    cfg.IntOpt("keep_trying", default=72, min=1, help="Hours after which an event that nobody took is given up."),
)


def target(conf: cfg.ConfigOpts) -> Target | None:
    """Where webhooks go; None for nowhere.

    :raises BadConfig: ``bad-option``, ``bad-webhook-url``, ``bad-webhook-secret``.
    """
    group = read(conf, GROUP, OPTIONS)
    if not group.url:
        return None
    _check_url(group.url)
    secrets = tuple(_key(text) for text in (group.secret or "").split())
    if not secrets:
        raise BadConfig(
            "bad-webhook-secret", "[webhook] secret is not set: events are signed, so that they cannot be forged."
        )
    return Target(group.url, secrets, keep_trying_s=group.keep_trying * 3600.0)


def _check_url(text: str) -> None:
    try:
        parts = urlsplit(text)
        wrong = not parts.hostname or parts.username is not None or bool(parts.fragment) or parts.port == 0
    except ValueError:
        wrong = True
    if wrong:
        raise BadConfig(
            "bad-webhook-url",
            "[webhook] url must be like https://host/path, without a user name, a password or a #fragment.",
        )


def _key(text: str) -> bytes:
    """The bytes of a key. The text itself is in no message."""
    try:
        key = base64.b64decode(text.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith("whsec_") or not 24 <= len(key) <= 64:
        raise BadConfig(
            "bad-webhook-secret",
            "[webhook] secret is not 'whsec_' followed by base64 of 24 to 64 bytes; make one with: "
            "echo whsec_$(openssl rand -base64 32)",
        )
    return key


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo.config's sample generator."""
    return [(GROUP, list(OPTIONS))]
