"""Whoever is told of events, in a process of its own: writes down what is heard, and hangs up when told to."""

from __future__ import annotations

import json
import socketserver
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.chaos.points import Board, Flag

NOVA = "/v2.1/os-server-external-events"
HOOK = "/hook"


class Server(socketserver.ThreadingTCPServer):
    """Takes the place of one that was killed."""

    allow_reuse_address = True
    daemon_threads = True


def serve(port: int, heard: Path, board: Board) -> None:
    """Listen for ever."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            away = board[Flag.RECEIVER_AWAY]
            if away:
                board[Flag.RECEIVER_AWAY] = min(away + 1, 100)
            if away <= 1:
                line = {"path": self.path, "id": self.headers.get("webhook-id"), "body": json.loads(body)}
                with heard.open("a") as file:
                    file.write(json.dumps(line) + "\n")
            if away:
                self.close_connection = True
                return
            answer = b'{"events": []}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    with Server(("127.0.0.1", port), Handler) as server:
        server.serve_forever(0.05)


def read(heard: Path) -> list[dict[str, Any]]:
    """What was heard so far, in order."""
    try:
        text = heard.read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines()]
