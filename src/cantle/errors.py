"""Every failure of Cantle, as one tree. Each leaf has a stable code, a status, and says what to do next.

    CantleError                      anything Cantle itself raises
    ├── BadRequest            400    what was asked is malformed: nothing was changed
    │   └── BadConfig                a configuration file or option (also exit code 78 of commands)
    ├── Unauthorized          401    who is calling is not known
    ├── Forbidden             403    the caller may not do this
    ├── NotFound              404    the thing named does not exist, or not for this caller
    ├── MethodNotAllowed      405    the path exists, but not for this method
    ├── NotAcceptable         406    the microversion asked for is not served
    ├── Conflict              409    it exists, but its state does not allow this now
    │   └── NoCapacity               nothing free fits the request
    ├── PreconditionFailed    412    it is no longer what the caller had seen: look again
    ├── TooLarge              413    more bytes than this server reads
    ├── UnsupportedMedia      415    the body is in a form this server does not read
    ├── Unprocessable         422    it contradicts what was asked for before
    ├── Locked                423    some of what was asked for is not settled yet
    ├── PreconditionRequired  428    a change must say which state of the thing it is meant for
    ├── Unavailable           503    a part we depend on is away: try again
    └── HostError             500    the host's kernel refused a step (file, errno, next step)

Codes are kebab-case strings. They never change their meaning and are never reused; each has a paragraph in
``docs/errors.md`` under a heading equal to the code, which ``cantle explain-error CODE`` prints. A test holds both together.
"""

from __future__ import annotations

import errno as _errno


class CantleError(Exception):
    """Base of all. ``str(error)`` is the message for a person: it names the thing, the value and the mend.

    :param code: the stable code, e.g. ``profile-not-found``.
    :param message: one or two sentences, no traceback, no SQL, no secret.
    :param details: extra machine-readable facts (JSON-able), e.g. ``{"name": "gold"}``.
    """

    status = 500

    def __init__(self, code: str, message: str, **details: object) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


class BadRequest(CantleError):
    """What was asked is malformed; nothing was changed."""

    status = 400


class BadConfig(BadRequest):
    """A configuration file or option is wrong; the message names section, option, value and the mend."""


class Unauthorized(CantleError):
    """Who is calling is not known: no token, or one that does not hold."""

    status = 401


class Forbidden(CantleError):
    """The caller may not do this."""

    status = 403


class NotFound(CantleError):
    """The thing named does not exist, or not for this caller."""

    status = 404


class MethodNotAllowed(CantleError):
    """The path exists, but not for this method."""

    status = 405


class NotAcceptable(CantleError):
    """The microversion asked for is not served."""

    status = 406


class Conflict(CantleError):
    """The thing exists, but its state does not allow this now."""

    status = 409


class NoCapacity(Conflict):
    """Nothing free fits the request; the message says what was looked at."""


class PreconditionFailed(CantleError):
    """The thing is no longer what the caller had seen when he asked for the change; nothing was changed."""

    status = 412


class TooLarge(CantleError):
    """More bytes than this server reads."""

    status = 413


class UnsupportedMedia(CantleError):
    """The body is in a form this server does not read."""

    status = 415


class Unprocessable(CantleError):
    """It can be read, and contradicts what the caller asked for before; nothing was changed."""

    status = 422


class Locked(CantleError):
    """Some of what was asked for is not settled yet."""

    status = 423


class PreconditionRequired(CantleError):
    """A change must say which state of the thing it is meant for, or it could undo another's; nothing was changed."""

    status = 428


class Unavailable(CantleError):
    """A part we depend on is away; trying again later is right."""

    status = 503


class HostError(CantleError):
    """The host's kernel refused a step.

    :param path: the file that was read or written, as the host names it (``/sys/...``).
    :param errno: the number the kernel answered, or None.
    """

    status = 500

    def __init__(self, code: str, message: str, *, path: str = "", errno: int | None = None, **details: object) -> None:
        name = _errno.errorcode.get(errno, str(errno)) if errno is not None else None
        super().__init__(code, message, path=path, errno=name, **details)
        self.path = path
        self.errno = errno
