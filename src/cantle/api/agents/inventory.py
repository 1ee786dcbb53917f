"""``PUT /v1/hosts/{host}/inventory``: a host's full report."""

from __future__ import annotations

import re

from cantle.api.call import Call
from cantle.engine import intake as engine
from cantle.errors import BadRequest, Conflict
from cantle.wire.inventory import InventoryAnswer, InventoryReport
from cantle.wire.protocol import PROTOCOL

#: As host names are, and as they may stand in a provider's name.
_HOSTNAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,252}[A-Za-z0-9])?", re.ASCII)


def accept(call: Call) -> InventoryAnswer:
    """Store the report; answer the generation of the host's work."""
    report: InventoryReport = call.body
    check_protocol(report.protocol)
    return engine.accept_report(call.db, hostname(call), report)


def hostname(call: Call) -> str:
    """The host in the path.

    :raises BadRequest: ``bad-hostname``.
    """
    name = call.params["host"]
    if not _HOSTNAME.fullmatch(name):
        raise BadRequest(
            "bad-hostname", f"'{name[:80]}' is no host name: letters, digits, '.', '_' and '-', at most 254."
        )
    return name


def check_protocol(protocol: int) -> None:
    """Refuse an agent that speaks another version.

    :raises Conflict: ``protocol-mismatch``.
    """
    if protocol != PROTOCOL:
        raise Conflict(
            "protocol-mismatch",
            f"The agent speaks protocol {protocol} and this server {PROTOCOL}. Install the same release on both.",
            protocol=PROTOCOL,
        )
