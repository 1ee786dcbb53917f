"""Who did what, as one log line per finished change (logger ``cantle.audit``)."""

from __future__ import annotations

import logging

from cantle.model.identity import Identity

LOG = logging.getLogger("cantle.audit")


def note(who: Identity, action: str, *things: str) -> None:
    """A change that is committed: ``lease.release 5c8e… by alice in 2641… (req-…)``."""
    LOG.info("%s %s by %s in %s (%s)", action, " ".join(things), who.user_id, who.project_id, who.request_id)
