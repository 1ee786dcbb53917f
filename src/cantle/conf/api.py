"""``[api]``, ``[agents]``, ``[database]``, ``[oslo_policy]`` and ``[keystone_authtoken]``: what the server processes are told."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from oslo_config import cfg

from cantle.api.settings import Auth, Settings
from cantle.conf import pci
from cantle.conf.values import certificates, plainly
from cantle.errors import BadConfig

API = (
    cfg.StrOpt(
        "auth",
        default=Auth.NONE.value,
        choices=[
            (
                Auth.NONE.value,
                "Nobody is asked: whoever is on this machine is an administrator. Other machines are refused.",
            ),
            (Auth.KEYSTONE.value, "Keystone tokens; needs a section [keystone_authtoken]."),
            (Auth.TOKEN.value, "Cantle's own tokens; 'cantle-manage token bootstrap' makes the first one."),
        ],
        help="How clients prove who they are.",
    ),
    cfg.URIOpt(
        "public_endpoint",
        schemes=["http", "https"],
        help="The URL at which clients reach the root of the service, such as https://cloud.example/accelerator (without /v2). Links "
        "in answers begin with it. Unset, they follow the request: right without a proxy, and behind one that passes the Host "
        "header and the mount point on.",
    ),
    cfg.BoolOpt(
        "trust_forwarded_headers",
        default=False,
        help="Let links follow X-Forwarded-Proto, X-Forwarded-Host and X-Forwarded-Prefix. Only behind a proxy that sets all three: "
        "otherwise a client can make links point anywhere.",
    ),
    cfg.BoolOpt(
        "allow_remote",
        default=False,
        help="With auth = none, answer other machines too. Everybody who can reach the port is then an administrator.",
    ),
    cfg.ListOpt(
        "allowed_hosts",
        default=[],
        help="With auth = none, names besides localhost that a Host header may carry, for instance of an SSH tunnel.",
    ),
    cfg.IntOpt("max_body_bytes", default=1 << 20, min=1024, help="A larger request body is answered 413."),
    cfg.IntOpt(
        "max_arqs_per_patch",
        default=256,
        min=1,
        help="How many accelerator requests one call may bind or unbind; more are answered 413. Nova names those of one instance. "
        "All of a call change in one transaction, which on SQLite keeps all other writers waiting.",
    ),
    cfg.IntOpt(
        "max_page",
        default=1000,
        min=1,
        max=10_000,
        help="The largest page of a list; a larger limit= is cut down to it.",
    ),
    cfg.IntOpt(
        "waiting_places",
        default=8,
        min=0,
        help="How many requests of one process may wait (?wait=) at a time. Each holds a thread: keep it well below their number.",
    ),
    cfg.IntOpt(
        "longest_wait",
        default=90,
        min=1,
        help="Seconds; a longer wait= is cut down to it. Keep it below a proxy's timeout.",
    ),
    cfg.BoolOpt(
        "require_owner_trait",
        default=False,
        help="Show device profiles to the compute service with trait:OWNER_CYBORG=required in each group, so that Nova never places "
        "them on a provider of its own that has the same resource class.",
    ),
)

AGENTS = (
    cfg.StrOpt(
        "token",
        secret=True,
        help="A secret with which an agent may speak for any host, for trying things out. Better leave it unset and give each host a "
        "token of its own: 'cantle host invite' makes a code for 'cantle agent join'.",
    ),
    cfg.URIOpt(
        "public_endpoint",
        schemes=["http", "https"],
        help="The URL at which agents of other machines reach their listener, such as https://cloud.example:6667; 'cantle host invite' "
        "tells it.",
    ),
    cfg.StrOpt(
        "ca_file",
        help="Certificates (PEM) of the private authority that signed the certificate agents meet there. 'cantle host invite' tells the "
        "fingerprint of the first one, and an agent that joins trusts the one with that fingerprint from then on. Unset, agents "
        "trust whom their system trusts.",
    ),
    cfg.IntOpt("max_report_bytes", default=16 << 20, min=1024, help="A larger report of a host is answered 413."),
    cfg.IntOpt(
        "waiting_places",
        default=100,
        min=0,
        help="How many agents may wait for work at a time in one process: as many as there are hosts, with 100 threads more.",
    ),
)

DATABASE = (
    cfg.StrOpt(
        "connection",
        secret=True,
        help="Where the data is: sqlite:////var/lib/cantle/cantle.db, postgresql://user:password@host/cantle, "
        "mariadb://user:password@host/cantle.",
    ),
)

POLICY = (
    cfg.StrOpt(
        "policy_file",
        default="policy.yaml",
        help="Rules that differ from the defaults; 'cantle-policy sample' prints those. A relative name is looked for beside the "
        "configuration file.",
    ),
)

LOGS = (
    cfg.BoolOpt("use_json", default=False, help="Log JSON, one object a line."),
    cfg.BoolOpt("debug", default=False, help="Log debug messages too."),
)

GROUPS: dict[str | None, tuple[cfg.Opt, ...]] = {
    None: LOGS,
    "api": API,
    "agents": AGENTS,
    "database": DATABASE,
    "oslo_policy": POLICY,
}


def register(conf: cfg.ConfigOpts) -> None:
    """Make the options known to ``conf``."""
    for group, options in GROUPS.items():
        conf.register_opts(options, group=group)


def public_settings(conf: cfg.ConfigOpts) -> Settings:
    """The settings of the clients' application.

    :raises BadConfig: ``bad-option``, ``bad-pci-alias``, ``keystone-not-installed``, ``ca-file-unusable``.
    """
    api = _checked(conf).api
    auth = Auth(api.auth)
    return Settings(
        auth=auth,
        public_endpoint=_root_url(api.public_endpoint),
        trust_forwarded=api.trust_forwarded_headers,
        allow_remote=api.allow_remote,
        allowed_hosts=tuple(api.allowed_hosts),
        body_limit=api.max_body_bytes,
        patch_limit=api.max_arqs_per_patch,
        page_limit=api.max_page,
        parked_slots=api.waiting_places,
        longest_wait=api.longest_wait,
        require_owner_trait=api.require_owner_trait,
        aliases=pci.aliases(conf),
        policy_file=_policy_file(conf),
        service_token_roles=_with_keystone(conf) if auth is Auth.KEYSTONE else frozenset({"service"}),
        keystone=conf if auth is Auth.KEYSTONE else None,
        agents_url=conf.agents.public_endpoint,
        agents_ca=certificates(conf.agents.ca_file),
    )


def agents_settings(conf: cfg.ConfigOpts) -> Settings:
    """The settings of the agents' application.

    :raises BadConfig: ``bad-option``, ``ca-file-unusable``.
    """
    _checked(conf)
    return Settings(
        report_limit=conf.agents.max_report_bytes,
        parked_slots=conf.agents.waiting_places,
        longest_wait=conf.api.longest_wait,
        policy_file=_policy_file(conf),
        agents_token=conf.agents.token,
        open_to_agents=Auth(conf.api.auth) is Auth.NONE,
        agents_ca=certificates(conf.agents.ca_file),
    )


def database_url(conf: cfg.ConfigOpts) -> str:
    """The database's URL.

    :raises BadConfig: ``database-not-configured``.
    """
    url: str | None = _checked(conf).database.connection
    if not url:
        raise BadConfig(
            "database-not-configured",
            "[database] connection is not set; say where the data is, as sqlite:////PATH, postgresql://… or mariadb://…, in "
            "/etc/cantle/cantle.conf or in the file that --config-file or CANTLE_CONFIG names.",
        )
    return url


def _checked(conf: cfg.ConfigOpts) -> cfg.ConfigOpts:
    """``conf`` with every value read once, so that a wrong one is found now and not at the first request that needs it."""
    register(conf)
    for group, options in GROUPS.items():
        for option in options:
            try:
                _ = conf[option.dest] if group is None else conf[group][option.dest]
            except (cfg.Error, ValueError) as error:
                raise BadConfig("bad-option", f"[{group or 'DEFAULT'}] {option.name}{plainly(error)}.") from error
    return conf


def _root_url(text: str | None) -> str | None:
    if text is None:
        return None
    parts = urlsplit(text)
    if not parts.netloc or parts.query or parts.fragment:
        raise BadConfig(
            "bad-option",
            f"[api] public_endpoint '{text}' must be a plain URL such as https://cloud.example/accelerator.",
        )
    if parts.path.rstrip("/").endswith("/v2"):
        raise BadConfig(
            "bad-option", f"[api] public_endpoint '{text}' must not end with /v2: links add that themselves."
        )
    return text.rstrip("/")


def _policy_file(conf: cfg.ConfigOpts) -> str | None:
    """The policy file's path; None where it is relative and there is no configuration file to be beside."""
    name: str = conf.oslo_policy.policy_file
    if os.path.isabs(name):
        return name
    files: list[str] = conf.config_file or []
    return os.path.join(os.path.dirname(os.path.abspath(files[-1])), name) if files else None


def _with_keystone(conf: cfg.ConfigOpts) -> frozenset[str]:
    """Register what ``auth_token`` reads, with the defaults that are right for us; return the roles of service tokens."""
    try:
        from keystonemiddleware import auth_token  # noqa: PLC0415 (an extra)
    except ImportError as error:
        raise BadConfig(
            "keystone-not-installed", f"[api] auth = keystone needs 'cantle[openstack]' installed ({error})."
        ) from error
    known: Any = auth_token.list_opts()
    for group, options in known:
        conf.register_opts(options, group=group)
    group = "keystone_authtoken"
    conf.set_default("service_token_roles_required", True, group=group)
    conf.set_default("http_connect_timeout", 10, group=group)
    return frozenset(role.lower() for role in conf.keystone_authtoken.service_token_roles)


def list_opts() -> list[tuple[str | None, list[cfg.Opt]]]:
    """For oslo.config's sample generator."""
    return [(group, list(options)) for group, options in GROUPS.items()]
