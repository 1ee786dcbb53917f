"""What the story of these tests lends, in a module that is no test's: pytest imports a module of tests under a name of its own, so what
one of them keeps would be another object for whoever imports it."""

from __future__ import annotations

from typing import Any

from tests.kernel.lab.machine import address

CARD = address("t4-second")
#: What a guest sees: both the stand-in driver's slices and the whole card are T4s; a serial port of mtty's.
GPU, PORT = "10de:1eb8", "4348:3253"

#: The lease of each profile that stands now.
LEASES: dict[str, dict[str, Any]] = {}
