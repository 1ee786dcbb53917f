"""How a service of OpenStack is reached: the options of keystoneauth1, in the section of that service, as in every OpenStack service."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from cantle.errors import BadConfig


def adapter(conf: cfg.ConfigOpts, group: str, service: str, *, timeout: int) -> Any:
    """A ``keystoneauth1.adapter.Adapter`` with a session of its own; None where the section names no way to log in.

    :param service: its type in the catalog, unless the section says another.
    :param timeout: seconds for each step of a call, unless the section says other.
    :raises BadConfig: ``bad-option``, ``keystone-not-installed``.
    """
    loading = _loading(conf, group, service, timeout)
    if loading is None:
        return None
    from keystoneauth1.exceptions import ClientException  # noqa: PLC0415 (an extra)

    try:
        auth = loading.load_auth_from_conf_options(conf, group)
        session = loading.load_session_from_conf_options(conf, group, auth=auth)
        return loading.load_adapter_from_conf_options(conf, group, session=session, auth=auth)
    except (ClientException, cfg.Error, ValueError, TypeError) as error:
        raise BadConfig("bad-option", f"[{group}] cannot be used to log in: {error}.") from error


def is_possible(conf: cfg.ConfigOpts, group: str) -> bool:
    """Whether the section names a way to log in.

    :raises BadConfig: ``keystone-not-installed``.
    """
    return _loading(conf, group, "", None) is not None


def _loading(conf: cfg.ConfigOpts, group: str, service: str, timeout: int | None) -> Any:
    """``keystoneauth1.loading`` with its options registered, if the section says how to log in; else None."""
    if group not in conf.list_all_sections():
        return None
    try:
        from keystoneauth1 import loading  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise BadConfig(
            "keystone-not-installed", f"[{group}] needs 'cantle[openstack]' installed ({error})."
        ) from error
    loading.register_auth_conf_options(conf, group)
    loading.register_session_conf_options(conf, group)
    loading.register_adapter_conf_options(conf, group, include_deprecated=False)
    if service:
        conf.set_default("service_type", service, group=group)
        conf.set_default("valid_interfaces", ["internal", "public"], group=group)
        conf.set_default("timeout", timeout, group=group)
    # With auth_section, auth_type is an option of that section and none of this one.
    return loading if conf[group].auth_section or conf[group].auth_type else None
