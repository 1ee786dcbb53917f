"""The version of what agents and server say to each other.

A field that is new and may be ignored by an older peer needs no new number: both sides leave out of account what they do not know.
"""

from __future__ import annotations

#: Raised by one when an older peer could misread a message. A server answers 409 ``protocol-mismatch`` to any other number.
PROTOCOL = 1
