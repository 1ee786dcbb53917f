"""What an operator wants a card to be."""

from __future__ import annotations

from tests.chaos.client import Client, Refused
from tests.chaos.roles import HOST, T4
from tests.chaos.scenario import Facts

INTENT = f"/v1/hosts/{HOST}/devices/{T4}/intent"


def wish(client: Client, facts: Facts) -> Facts:
    """Lets the card be lent whole. Whoever was not answered looks whether it was done."""
    try:
        client.ask("PUT", INTENT, {"mode": "passthrough"})
    except Refused as refused:
        if refused.code != "precondition-needed":
            raise
    return facts


def unwish(client: Client, facts: Facts) -> Facts:
    """Lets the card be again what the configuration says."""
    try:
        etag = client.ask("GET", INTENT)["etag"]
        client.ask("DELETE", INTENT, headers={"If-Match": f'"{etag}"'})
    except Refused as refused:
        if refused.status not in (404, 412):
            raise
    return facts
