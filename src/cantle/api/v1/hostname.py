"""The host that a request names, called ``hostname`` as in every answer and filter."""

from __future__ import annotations

import msgspec

from cantle.errors import BadRequest


class NamesHost(msgspec.Struct, frozen=True, kw_only=True):
    """A query or body with a host's name. ``host`` is the former name of ``hostname``, and goes on meaning the same."""

    hostname: str | None = None
    host: str | None = None

    def named(self) -> str | None:
        """The host's name; None when neither is given.

        :raises BadRequest: ``bad-argument``: they name two.
        """
        if self.host is None or self.host == self.hostname:
            return self.hostname
        if self.hostname is not None:
            raise BadRequest(
                "bad-argument",
                f"hostname is {self.hostname[:80]!r} and host is {self.host[:80]!r}; leave host out.",
                argument="host",
            )
        return self.host

    def needed(self) -> str:
        """The same where there must be one.

        :raises BadRequest: ``bad-argument``.
        """
        name = self.named()
        if not name:
            raise BadRequest(
                "bad-argument",
                "hostname is missing; say which host is meant, as 'cantle host list' names it.",
                argument="hostname",
            )
        return name
