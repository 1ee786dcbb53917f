"""As much of Keystone's API as ``auth_token`` asks for, for fast tests of our side. The real Keystone is in tests/real."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from typing import Any

PROJECT = "2641e5a096b24726a35900171e6001ca"

#: Token, roles, seconds from now to its end, and its scope.
TOKENS: dict[str, tuple[list[str], int, str]] = {
    "admin": (["admin", "member", "reader"], 3600, "project"),
    "member": (["Member", "reader"], 3600, "project"),
    "reader": (["reader"], 3600, "project"),
    "expired": (["admin"], -60, "project"),
    "system": (["admin"], 3600, "system"),
    "unscoped": ([], 3600, "none"),
    "service": (["service"], 3600, "project"),
    "not-a-service": (["member"], 3600, "project"),
}


class KeystoneStandIn:
    """A WSGI application. ``validations`` counts the tokens it was asked about; ``failing`` makes it answer 500; whoever logs in is given
    the token ``login``."""

    def __init__(self) -> None:
        self.url = ""
        self.validations = 0
        self.failing = False
        self.login = "service"
        self.revoked: set[str] = set()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """WSGI."""
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if self.failing:
            return _answer(start_response, "500 Internal Server Error", {})
        if path.rstrip("/") in ("", "/v3"):
            return _answer(start_response, "200 OK", self._versions(single=path.startswith("/v3")))
        if path == "/v3/auth/tokens" and method == "POST":
            return _answer(start_response, "201 Created", self._token(self.login), token="our-own")
        if path == "/v3/auth/tokens" and method == "GET":
            return self._validate(environ, start_response)
        return _answer(start_response, "404 Not Found", {})

    def _validate(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.validations += 1
        token = environ["HTTP_X_SUBJECT_TOKEN"]
        allow_expired = "allow_expired=1" in environ["QUERY_STRING"]
        if token not in TOKENS or token in self.revoked or (TOKENS[token][1] < 0 and not allow_expired):
            return _answer(
                start_response, "404 Not Found", {"error": {"code": 404, "title": "Not Found", "message": "x"}}
            )
        return _answer(start_response, "200 OK", self._token(token), token=token)

    def _token(self, name: str) -> dict[str, Any]:
        roles, seconds, scope = TOKENS[name]
        now = dt.datetime.now(dt.UTC)
        token: dict[str, Any] = {
            "methods": ["password"],
            "user": {"id": f"user-of-{name}", "name": name, "domain": {"id": "default", "name": "Default"}},
            "issued_at": _time(now),
            "expires_at": _time(now + dt.timedelta(seconds=seconds)),
            "audit_ids": [name],
            "catalog": [{"type": "identity", "name": "keystone", "id": "1", "endpoints": self._endpoints()}],
        }
        if roles:
            token["roles"] = [{"id": role, "name": role} for role in roles]
        if scope == "project":
            token["project"] = {"id": PROJECT, "name": "p", "domain": {"id": "default", "name": "Default"}}
        elif scope == "system":
            token["system"] = {"all": True}
        return {"token": token}

    def _endpoints(self) -> list[dict[str, str]]:
        interfaces = ("public", "internal", "admin")
        return [{"id": i, "interface": i, "region": "R", "region_id": "R", "url": f"{self.url}/v3"} for i in interfaces]

    def _versions(self, *, single: bool) -> dict[str, Any]:
        version = {
            "id": "v3.14",
            "status": "stable",
            "updated": "2020-04-07T00:00:00Z",
            "links": [{"rel": "self", "href": f"{self.url}/v3/"}],
            "media-types": [],
        }
        return {"version": version} if single else {"versions": {"values": [version]}}


def _time(moment: dt.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000000Z")


def _answer(start_response: Any, status: str, content: dict[str, Any], token: str | None = None) -> Iterable[bytes]:
    body = json.dumps(content).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    if token is not None:
        headers.append(("X-Subject-Token", token))
    start_response(status, headers)
    return [body]
