"""Idempotency keys: a creating request that may come again, because its first answer was lost, creates once.

The header is that of the IETF's draft "The Idempotency-Key HTTP Header Field". A key is the caller's own: another caller's same word is
another key. Neither key nor request is kept, only what tells them apart.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Self

from cantle.errors import BadRequest
from cantle.model.identity import Identity

HEADER = "Idempotency-Key"

_KEY = re.compile(r"[\x21-\x7e]{1,255}")


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """One request under one key.

    :param place: digest of caller, project, method, path and key: what may be there once. 64 hex digits.
    :param request: digest of the body, 64 hex digits: two requests under one key must be the same.
    """

    place: str
    request: str

    @classmethod
    def of(cls, key: str, who: Identity, method: str, path: str, body: bytes) -> Self:
        """The key of a header for one request.

        :raises BadRequest: ``bad-idempotency-key``.
        """
        if _KEY.fullmatch(key) is None:
            raise BadRequest(
                "bad-idempotency-key", f"{HEADER} has 1 to 255 visible ASCII characters, for example a fresh uuid."
            )
        return cls(_digest(who.user_id, who.project_id or "", method, path, key), hashlib.sha256(body).hexdigest())


def _digest(*parts: str) -> str:
    """Of parts that cannot be mistaken for others: each goes with its length."""
    return hashlib.sha256("".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()
