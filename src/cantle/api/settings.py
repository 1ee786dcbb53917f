"""What the HTTP applications are told by their composition root (``cantle serve`` or ``cantle.wsgi``)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cantle.model.alias import NO_ALIASES, Aliases


class Auth(StrEnum):
    """How a caller proves who they are."""

    NONE = "none"
    """Nobody is asked; every caller from this machine is an administrator. Other machines are refused."""
    KEYSTONE = "keystone"
    """Keystone tokens, and service tokens for the compute service (spec S3.8)."""
    TOKEN = "token"  # noqa: S105 - the name of a strategy
    """Cantle's own bearer tokens (`cantle.model.token`), for a cloud without Keystone."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Frozen options of one application; ``conf/api.py`` explains each to operators.

    :param auth: see :class:`Auth`.
    :param public_endpoint: the URL where clients reach the root of the application (``https://cloud.example/accelerator``);
        links start with it. None: links follow the request.
    :param trust_forwarded: links follow ``X-Forwarded-Proto``, ``-Host`` and ``-Prefix``. Only right behind a proxy that sets them.
    :param allow_remote: with auth none, answer other machines too. Whoever sets it has another lock on the door.
    :param allowed_hosts: with auth none, names besides the loopback ones that the ``Host`` header may carry.
    :param body_limit: bytes of a request body of clients; ``report_limit``: of agents.
    :param patch_limit: ARQs that one call may bind or unbind.
    :param page_limit: the largest page of a list; a larger ``limit`` is cut down to it.
    :param parked_slots: how many requests may wait (long polls) at once; the server's threads must be more.
    :param longest_wait: seconds; a longer ``wait=`` is cut down to it.
    :param require_owner_trait: profiles shown to services also require ``trait:OWNER_CYBORG``.
    :param policy_file: ``policy.yaml`` with the operator's overrides, or None.
    :param service_token_roles: roles that make a service token count.
    :param keystone: a loaded ``oslo_config.cfg.ConfigOpts`` with ``[keystone_authtoken]``, for auth keystone.
    :param aliases: the PCI aliases that flavors may name.
    :param agents_token: a secret that lets whoever has it speak for any host: of ``cantle serve`` for the agents in it.
    :param open_to_agents: agents of this machine need no token.
    :param agents_url: where agents of other machines reach their listener; None: not said.
    :param agents_ca: certificates (PEM) of the authority that signed that listener's; None: not said.
    """

    auth: Auth = Auth.NONE
    public_endpoint: str | None = None
    trust_forwarded: bool = False
    allow_remote: bool = False
    allowed_hosts: tuple[str, ...] = ()
    body_limit: int = 1 << 20
    report_limit: int = 16 << 20
    patch_limit: int = 256
    page_limit: int = 1000
    parked_slots: int = 8
    longest_wait: int = 90
    require_owner_trait: bool = False
    policy_file: str | None = None
    service_token_roles: frozenset[str] = frozenset({"service"})
    keystone: object | None = None
    agents_token: str | None = None
    aliases: Aliases = NO_ALIASES
    open_to_agents: bool = True
    agents_url: str | None = None
    agents_ca: str | None = None
