"""Who did what, as one log line per finished change (logger ``cantle.audit``)."""

from __future__ import annotations

import logging

from cantle.model.identity import Identity

LOG = logging.getLogger("cantle.audit")


def note(who: Identity, action: str, *things: str) -> None:
    """A change that is committed: ``lease.release 5c8e… by alice in 2641… (req-…)``; with the uuid of the token, where it is ours."""
    by = who.request_id if who.token_uuid is None else f"token {who.token_uuid}, {who.request_id}"
    LOG.info("%s %s by %s in %s (%s)", action, " ".join(things), who.user_id, who.project_id, by)
