"""From the table of routes to a falcon application: identify, authorize, check, call the handler, encode."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import falcon
import msgspec

from cantle.api import body, fault, links, microversion, query, request_id
from cantle.api.call import Call, Site, Unchanged
from cantle.api.identity import IDENTITY
from cantle.api.route import Route
from cantle.api.rules import EXPLAIN_NAMES, PUBLIC
from cantle.api.stream import EVENT_STREAM, Stream
from cantle.engine import token
from cantle.engine.explain import without_names
from cantle.engine.idempotency import AlreadyAnswered
from cantle.errors import BadRequest, CantleError, MethodNotAllowed, NoCapacity, NotFound
from cantle.model.idempotency import IdempotencyKey
from cantle.model.identity import Identity
from cantle.model.precondition import Precondition

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
#: Equal bodies are equal bytes.
_canonical = msgspec.json.Encoder(order="deterministic").encode

#: A stream is passed on as it comes, by nginx too.
_UNBUFFERED = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

#: Refusals of a server that is as it should be: thousands of agents are told so at each restart.
_ORDINARY = frozenset({"server-stopping"})

_NOBODY = Identity("", None)

#: On every answer of the accelerator API (contract section 1.1), failures included.
_VERSION_HEADERS = {
    "Vary": microversion.HEADER,
    "OpenStack-API-Minimum-Version": microversion.MINIMUM,
    "OpenStack-API-Maximum-Version": microversion.MAXIMUM,
}


def build(routes: Iterable[Route], site: Site) -> falcon.App[falcon.Request, falcon.Response]:
    """A WSGI application that answers ``routes``. Paths of v2 are answered without their ``/v2`` too, as Cyborg's are."""
    app = falcon.App()
    app.req_options.strip_url_path_trailing_slash = True
    app.add_error_handler(Exception, _unforeseen)
    app.add_error_handler(falcon.HTTPError, _from_falcon)
    app.add_error_handler(CantleError, _refuse)
    by_path: dict[str, dict[str, Any]] = defaultdict(dict)
    for route in routes:
        by_path[route.path][f"on_{route.method.lower()}"] = _responder(route, site)
    for path, responders in by_path.items():
        resource = SimpleNamespace(**responders)
        app.add_route(path, resource)
        if path.startswith("/v2/"):
            app.add_route(path.removeprefix("/v2"), resource)
    return app


def _responder(route: Route, site: Site) -> Any:
    settings = site.settings
    limit = settings.report_limit if route.from_agent else settings.body_limit
    decode: body.Decode | None = None
    if route.body is not None:
        decode = body.trusted_decoder(route.body) if route.from_agent else body.decoder(route.body)

    def respond(request: falcon.Request, response: falcon.Response, **params: str) -> None:
        environ = request.env
        who = _NOBODY if route.rule == PUBLIC else site.identify(environ)
        environ[IDENTITY] = who
        if route.is_v2_document:
            response.set_headers(_VERSION_HEADERS)
        minor = _negotiate(environ, response) if route.is_v2 else 0
        site.policy.check(route.rule, who)
        _refuse_nul(params)
        if who.hostname is not None and params.get("host", who.hostname) != who.hostname:
            raise token.refusal()
        call = Call(
            site=site,
            who=who,
            base=links.base(environ, settings),
            path=request.path,
            minor=minor,
            params=params,
            query=query.parse(request.query_string, route.query),
            body=None if decode is None else decode(body.read(request, limit)),
            precondition=_precondition(environ) if route.conditional else Precondition(),
        )
        if route.once and (key := environ.get("HTTP_IDEMPOTENCY_KEY")) is not None:
            call.key = IdempotencyKey.of(key, who, route.method, route.path, _canonical(call.body))
        handler = route.handler
        if route.stream is not None and EVENT_STREAM in environ.get("HTTP_ACCEPT", ""):
            handler, call.last_event_id = route.stream, environ.get("HTTP_LAST_EVENT_ID")
        try:
            answer = handler(call)
        except AlreadyAnswered as earlier:
            answer = earlier.answer.encode()
            call.headers["Idempotency-Replayed"] = "true"
        except NoCapacity as error:
            raise error if site.policy.allows(EXPLAIN_NAMES, who) else without_names(error) from None
        response.status = route.status
        if call.headers:
            response.set_headers(call.headers)
        if isinstance(answer, bytes):
            response.data = answer
        elif isinstance(answer, Stream):
            response.stream, response.content_type = answer, EVENT_STREAM
            response.set_headers(_UNBUFFERED)
        elif isinstance(answer, Unchanged):
            response.status = 304
        elif answer is not None:
            response.data = _encode(answer)

    return respond


def _precondition(environ: dict[str, Any]) -> Precondition:
    return Precondition.parse(environ.get("HTTP_IF_MATCH"), environ.get("HTTP_IF_NONE_MATCH"))


def _negotiate(environ: dict[str, Any], response: falcon.Response) -> int:
    minor = microversion.requested(environ.get("HTTP_OPENSTACK_API_VERSION"))
    response.set_headers(_VERSION_HEADERS)
    response.set_header(microversion.HEADER, f"{microversion.SERVICE} 2.{minor}")
    return minor


def _refuse_nul(params: dict[str, str]) -> None:
    for name, value in params.items():
        if "\0" in value:
            raise BadRequest("bad-path", f"The path's {name} has a NUL character.")


def _refuse(request: falcon.Request, response: falcon.Response, error: CantleError, params: dict[str, Any]) -> None:  # noqa: ARG001
    if error.status >= 500 and error.code not in _ORDINARY:
        _log.error("%s %s: %s (%s)", request.method, request.path, error.message, error.code)
    _answer(request, response, error)


def _from_falcon(
    request: falcon.Request, response: falcon.Response, error: falcon.HTTPError, params: dict[str, Any]
) -> None:
    if isinstance(error, falcon.HTTPMethodNotAllowed):
        allowed = dict(error.headers or {}).get("Allow", "")
        translated: CantleError = MethodNotAllowed(
            "method-not-allowed",
            f"{request.method} is not possible on {request.path}. What is: {allowed}.",
            allow=allowed,
        )
    elif error.status_code == 404:
        translated = NotFound(
            "no-such-path",
            f"There is nothing at {request.path}. GET /v1/openapi.json of the public API lists all it has.",
        )
    elif error.status_code < 500:
        translated = BadRequest("bad-request", error.description or error.title or "The request cannot be read.")
    else:
        _unforeseen(request, response, error, params)
        return
    _answer(request, response, translated)


def _unforeseen(request: falcon.Request, response: falcon.Response, error: Exception, params: dict[str, Any]) -> None:  # noqa: ARG001
    _log.error("%s %s failed", request.method, request.path, exc_info=error)
    _answer(request, response, fault.internal(request.env[request_id.ENVIRON]))


def _answer(request: falcon.Request, response: falcon.Response, error: CantleError) -> None:
    response.status = error.status
    if not request.path.startswith("/v1"):
        response.set_headers(_VERSION_HEADERS)
    response.set_headers(fault.headers(error))
    response.data, response.content_type = fault.render(request.path, error, request.env[request_id.ENVIRON])
