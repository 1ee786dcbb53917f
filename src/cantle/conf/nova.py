"""``[nova]``: how to reach the compute service, which is told when the accelerators of an instance are ready (spec S3.5)."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from cantle.conf import login
from cantle.conf.values import read

GROUP = "nova"

OPTIONS = (
    cfg.IntOpt(
        "arq_binding_timeout",
        default=300,
        min=1,
        help="Seconds for which Nova waits for the accelerators of an instance: what nova.conf says in [DEFAULT] "
        "arq_binding_timeout. For so long a failure is announced, and BindFailed is not shown.",
    ),
)

#: Seconds for each step of a call; a courier's claim is much longer.
_TIMEOUT = 10


def waits_s(conf: cfg.ConfigOpts) -> float | None:
    """For how long the compute service waits; None where it is not told, since ``[nova]`` names no way to log in.

    :raises BadConfig: ``bad-option``, ``keystone-not-installed``.
    """
    return float(read(conf, GROUP, OPTIONS).arq_binding_timeout) if login.is_possible(conf, GROUP) else None


def receiver(conf: cfg.ConfigOpts) -> Any:
    """The `cantle.nova.event.NovaReceiver` of this configuration, with the one session of this process; None where Nova is not told.

    :raises BadConfig: ``bad-option``, ``keystone-not-installed``.
    """
    adapter = login.adapter(conf, GROUP, "compute", timeout=_TIMEOUT)
    if adapter is None:
        return None
    from cantle.nova.event import NovaReceiver  # noqa: PLC0415 (needs the extra)

    return NovaReceiver(adapter)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo.config's sample generator."""
    return [(GROUP, list(OPTIONS))]
