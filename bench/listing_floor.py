"""The floor of `bench.listing`, as a process of its own: read all pages of the devices and throw them away."""

from __future__ import annotations

import http.client
import os
import re
from urllib.parse import urlsplit

_NEXT = re.compile(rb'"devices_links":\[{"href":"[^?"]*[?]([^"]*)"')


def main() -> None:
    """Read."""
    place = urlsplit(os.environ["CANTLE_URL"])
    connection = http.client.HTTPConnection(place.hostname or "", place.port)
    following: str | None = "fields=hostname,address,model,mode,health,reason"
    while following is not None:
        connection.request("GET", f"/v1/devices?{following}")
        link = _NEXT.search(connection.getresponse().read())
        following = link[1].decode() if link else None


if __name__ == "__main__":
    main()
