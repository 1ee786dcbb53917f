"""Who is asking. One value reaches policy and engine, whether it came from Keystone, a token, or loopback without auth."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """The caller of one request.

    :param user_id: opaque id of the person or service; used in the audit trail.
    :param project_id: the project the token is scoped to, None for none.
    :param roles: lower-case role names.
    :param is_service: a *valid service token* came along (contract section 1.6), which lifts the project filter for instances.
    :param request_id: ``req-<uuid>``, kept from the caller when given.
    :param token_uuid: of the token he came with, where it is one of ours; for the audit trail.
    :param hostname: the one host he may speak for, where it is an agent's; None: any.
    """

    user_id: str
    project_id: str | None
    roles: frozenset[str] = frozenset()
    is_service: bool = False
    request_id: str = ""
    token_uuid: str | None = None
    hostname: str | None = None

    @property
    def is_admin(self) -> bool:
        """Whether the token carries the admin role."""
        return "admin" in self.roles


#: The project of whoever has none of his own, where there is no Keystone.
LOCAL_PROJECT = "00000000-0000-0000-0000-000000000000"

#: What happens without anybody asking.
KEEPER = Identity("keeper", None)

#: The caller behind ``auth = none`` on loopback: an administrator who also speaks for the compute service.
LOCAL_ADMIN = Identity("local", LOCAL_PROJECT, frozenset({"admin", "manager", "member", "reader", "service"}), True)
