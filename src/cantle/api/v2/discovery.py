"""Version documents, public: what clients read to find the API (contract section 1.3).

keystoneauth and openstacksdk take the ``self`` link for the base of all later requests, so it must be where *they* reached us.
"""

from __future__ import annotations

import msgspec

from cantle.api.call import Call
from cantle.api.microversion import MAXIMUM, MINIMUM
from cantle.api.v2.resource import Link


class Version(msgspec.Struct, frozen=True):
    """One entry of the root document."""

    id: str
    status: str
    max_version: str
    min_version: str
    links: list[Link]


class Root(msgspec.Struct, frozen=True):
    """``GET /``."""

    name: str
    description: str
    versions: list[Version]
    default_version: Version


class VersionDocument(msgspec.Struct, frozen=True):
    """``GET /v2``: bare, not wrapped in ``version``."""

    id: str
    links: list[Link]
    max_version: str
    min_version: str
    status: str


def root(call: Call) -> Root:
    """All versions; there is one."""
    version = Version("v2", "CURRENT", MAXIMUM, MINIMUM, [Link(f"{call.base}/v2", "self")])
    return Root(
        "Cantle", "Finds, slices and lends accelerators; speaks the OpenStack accelerator API.", [version], version
    )


def version_2(call: Call) -> VersionDocument:
    """Version 2 and its microversions."""
    return VersionDocument("v2.0", [Link(f"{call.base}/v2/", "self")], MAXIMUM, MINIMUM, "CURRENT")
