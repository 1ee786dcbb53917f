"""The version of what agents and server say to each other.

A field that is new and may be ignored by an older peer needs no new number: both sides leave out of account what they do not know.
"""

from __future__ import annotations

#: What this version speaks. Raised by one when an older peer could misread a message.
PROTOCOL = 1

#: The oldest that a server of this version still speaks with an agent: in the agent's words, not in its own. So servers are upgraded
#: first, agents in their own time. A server answers 409 ``protocol-mismatch`` to any number outside of these two.
OLDEST = 1
