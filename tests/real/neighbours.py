"""The neighbours that some ``openstack accelerator`` commands ask first: any server and any image asked for by uuid is there.

``arq bind`` looks its server up in the compute service, ``deployable program`` its image in the image service.
"""

from __future__ import annotations

import http.server
import json
import threading
from types import TracebackType


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """``/v2.1/servers/{uuid}`` is a server, ``/v2/images/{uuid}`` an image, anything else a version document."""
        _, version, *path = self.path.split("/")
        match path:
            case ["servers", uuid]:
                body: object = {"server": {"id": uuid, "name": uuid, "status": "ACTIVE"}}
            case ["images", uuid]:
                body = {"id": uuid, "name": uuid, "status": "active"}
            case _:
                here = f"http://{self.headers['Host']}/{version}"
                links = [{"rel": "self", "href": here}]
                body = {"version": {"id": version, "status": "CURRENT", "links": links}}
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Neighbours:
    """Serves from a thread of this process while the block lasts."""

    def __init__(self) -> None:
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.compute_url = f"http://127.0.0.1:{self._server.server_port}/v2.1"
        self.image_url = f"http://127.0.0.1:{self._server.server_port}/v2"

    def __enter__(self) -> Neighbours:
        threading.Thread(target=self._server.serve_forever, name="neighbours", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
