"""The two WSGI applications: one for clients, one for the agents of hosts.

The layers of each, from the outside in, and why in this order:

1. :class:`Frame`: gives the request its id first, so that every later refusal, log line and answer carries it; catches what
   the layers below let through; turns away what may not knock at all (auth none: other machines, web pages), before anything
   is parsed.
2. Keystone's ``auth_token`` (auth keystone only): removes identity headers a client may have forged and writes its own. It
   delays its decision, because discovery documents and health need no token; the dispatcher decides.
   Cantle's own tokens need no layer: the dispatcher asks the database who has one, for routes that need a caller.
3. The dispatcher: route, microversion, policy, arguments, body, handler. Policy comes before the body is read, so that a
   stranger cannot make us parse.
"""

from __future__ import annotations

import logging
from typing import Any

from cantle.api import admission, dispatch, routes
from cantle.api.call import Site
from cantle.api.frame import Frame, WsgiApp
from cantle.api.identity import AgentIdentity, TokenIdentity, bearer, local_admin
from cantle.api.parking import Parking
from cantle.api.policy import Policy
from cantle.api.settings import Auth, Settings
from cantle.store.database import Database

_log = logging.getLogger(__name__)


def public_app(db: Database, settings: Settings) -> WsgiApp:
    """The application for clients: the accelerator API v2, our own v1, health.

    :raises BadConfig: ``bad-policy-file``, ``keystone-not-configured``, ``keystone-not-installed``.
    """
    policy = Policy(settings.policy_file)
    parking = Parking(settings.parked_slots)
    if settings.auth is Auth.KEYSTONE:
        from cantle.api import keystone  # noqa: PLC0415 (an extra: imported only when asked for)

        site = Site(db, settings, policy, keystone.identity(settings), parking)
        return Frame(keystone.protect(dispatch.build(routes.PUBLIC_ROUTES, site), settings), admission.anyone)
    if settings.auth is Auth.TOKEN:
        site = Site(db, settings, policy, TokenIdentity(db), parking)
        return Frame(dispatch.build(routes.PUBLIC_ROUTES, site), admission.anyone)
    _log.warning(
        "Authentication is off ([api] auth = none): everybody on this machine is an administrator%s.",
        ", and so is everybody who can reach it" if settings.allow_remote else "; other machines are refused",
    )
    site = Site(db, settings, policy, local_admin, parking)
    return Frame(dispatch.build(routes.PUBLIC_ROUTES, site), _this_machine(settings))


def agents_app(db: Database, settings: Settings) -> WsgiApp:
    """The application for agents. A token of a host is good there always; without one, only this machine is answered, and only where
    the settings leave the door open.

    :raises BadConfig: ``bad-policy-file``.
    """
    open_door = settings.open_to_agents and settings.agents_token is None
    site = Site(
        db,
        settings,
        Policy(settings.policy_file),
        AgentIdentity(db, settings.agents_token, open_door=open_door),
        Parking(settings.parked_slots),
    )
    local = _this_machine(settings)

    def admit(environ: dict[str, Any]) -> None:
        if open_door and not bearer(environ):
            local(environ)

    return Frame(dispatch.build(routes.AGENT_ROUTES, site), admit)


def warn_of_shared_token(settings: Settings) -> None:
    """Say in the log that one secret is good for every host, if a configuration has one: whoever has it may speak for any of them."""
    if settings.agents_token is not None:
        _log.warning(
            "[agents] token is set: whoever has it may speak for any host, and one host that is broken into is all of them. Give each "
            "host a token of its own (cantle host invite, then cantle agent join there) and take the option out."
        )


def _this_machine(settings: Settings) -> admission.Admit:
    return admission.this_machine(allow_remote=settings.allow_remote, allowed_hosts=settings.allowed_hosts)
