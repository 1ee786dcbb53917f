"""``[nova]``: how to reach the compute service, which is told when the accelerators of an instance are ready (spec S3.5)."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from cantle.conf.values import read
from cantle.errors import BadConfig

GROUP = "nova"

OPTIONS = (
    cfg.IntOpt(
        "arq_binding_timeout",
        default=300,
        min=1,
        help="Seconds for which Nova waits for the accelerators of an instance: what nova.conf says in [compute] "
        "arq_binding_timeout. For so long a failure is announced, and BindFailed is not shown.",
    ),
)

#: Seconds for each step of a call; a courier's claim is much longer.
_TIMEOUT = 10


def waits_s(conf: cfg.ConfigOpts) -> float | None:
    """For how long the compute service waits; None where it is not told, since ``[nova]`` names no way to log in.

    :raises BadConfig: ``bad-option``, ``keystone-not-installed``.
    """
    return float(read(conf, GROUP, OPTIONS).arq_binding_timeout) if _loading(conf) is not None else None


def receiver(conf: cfg.ConfigOpts) -> Any:
    """The `cantle.nova.event.NovaReceiver` of this configuration, with the one session of this process; None where Nova is not told.

    :raises BadConfig: ``bad-option``, ``keystone-not-installed``.
    """
    loading = _loading(conf)
    if loading is None:
        return None
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415 (an extra)

    from cantle.nova.event import NovaReceiver  # noqa: PLC0415 (needs the extra)

    try:
        auth = loading.load_auth_from_conf_options(conf, GROUP)
        session = loading.load_session_from_conf_options(conf, GROUP, auth=auth)
        adapter = loading.load_adapter_from_conf_options(conf, GROUP, session=session, auth=auth)
    except (ClientException, cfg.Error, ValueError, TypeError) as error:
        raise BadConfig("bad-option", f"[nova] cannot be used to log in: {error}.") from error
    return NovaReceiver(adapter)


def _loading(conf: cfg.ConfigOpts) -> Any:
    """``keystoneauth1.loading`` with its options registered, if ``[nova]`` says how to log in; else None."""
    if GROUP not in conf.list_all_sections():
        return None
    try:
        from keystoneauth1 import loading  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise BadConfig("keystone-not-installed", f"[nova] needs 'cantle[openstack]' installed ({error}).") from error
    loading.register_auth_conf_options(conf, GROUP)
    loading.register_session_conf_options(conf, GROUP)
    loading.register_adapter_conf_options(conf, GROUP, include_deprecated=False)
    conf.set_default("service_type", "compute", group=GROUP)
    conf.set_default("valid_interfaces", ["internal", "public"], group=GROUP)
    conf.set_default("timeout", _TIMEOUT, group=GROUP)
    # With auth_section, auth_type is an option of that section and none of this one.
    return loading if conf.nova.auth_section or conf.nova.auth_type else None


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo.config's sample generator."""
    return [(GROUP, list(OPTIONS))]
