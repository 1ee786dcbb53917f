"""The version of what agents and server say to each other."""

from __future__ import annotations

#: Raised by one when an older peer could misread a message. A server answers 409 ``protocol-mismatch`` to any other number.
PROTOCOL = 1
