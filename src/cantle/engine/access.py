"""Who may see and touch what. One rule each, used by every use case (contract sections 1.6 and 7.1 #2).

- An administrator sees everything; anybody else the things of the project his token is scoped to. What one may not see does not exist.
- A service (a valid service token) that names an instance, or an ARQ of one, speaks for the compute service: no project filter. So an
  operator who is no administrator can evacuate: what he makes belongs to the instance's project as soon as it is bound, and Nova cleans
  up after a failure with his token.
- What belongs to an instance is touched with a service token only, whoever the user is.
"""

from __future__ import annotations

from cantle.errors import Forbidden
from cantle.model.identity import Identity

#: Clients look for these words (contract section 1.5).
NEEDS_SERVICE = "This operation requires a service token. Use the Compute API to manage instance accelerators."


def sees(who: Identity, project_id: str | None, instance_uuid: str | None = None) -> bool:
    """Whether things of that project, and of that instance if they have one, exist for the caller."""
    if who.is_admin or (who.is_service and instance_uuid is not None):
        return True
    return project_id is not None and project_id == who.project_id


def project_filter(who: Identity) -> str | None:
    """The project a caller's lists are cut down to; None for no cut. A caller without a project sees an empty list."""
    return None if who.is_admin else who.project_id or ""


def need_service(who: Identity) -> None:
    """Refuse callers without a service token.

    :raises Forbidden: ``service-token-needed``.
    """
    if not who.is_service:
        raise Forbidden("service-token-needed", NEEDS_SERVICE)
