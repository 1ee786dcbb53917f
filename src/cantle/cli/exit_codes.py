"""The numbers a command may end with. Scripts rely on them, so they never change; docs/cli.md lists them for people."""

from __future__ import annotations

from enum import IntEnum

from cantle import errors


class ExitCode(IntEnum):
    """Why a command ended."""

    OK = 0
    """What was asked is done, or printed."""
    FAILED = 1
    """It was tried and did not work; the message says which step and why."""
    USAGE = 2
    """The command line, or what was handed in (a profile, a dump), is malformed: nothing was changed."""
    NOT_FOUND = 3
    """The thing named does not exist, or not for this caller."""
    CONFLICT = 4
    """It exists, but its state does not allow this now; or nothing free fits the request."""
    FORBIDDEN = 5
    """The caller may not do this."""
    TIMED_OUT = 6
    """``--wait`` ran out of its ``--timeout``. What was asked goes on; nothing is undone."""
    UNAVAILABLE = 69
    """The server, or a part it depends on, cannot be reached: try again later."""
    INTERNAL = 70
    """A fault in Cantle itself: please report it."""
    CONFIG = 78
    """A configuration file or option is wrong; the message names it and the mend."""
    INTERRUPTED = 130
    """Ended by Ctrl-C."""
    BROKEN_PIPE = 141
    """The reader of the output went away (``cantle … | head``)."""


class TimedOut(errors.CantleError):
    """A wait ran out of its time. What was asked goes on."""

    status = 504


#: First match wins, so the leaves of the tree stand before their bases.
_BY_ERROR: tuple[tuple[type[errors.CantleError], ExitCode], ...] = (
    (TimedOut, ExitCode.TIMED_OUT),
    (errors.BadConfig, ExitCode.CONFIG),
    (errors.BadRequest, ExitCode.USAGE),
    (errors.NotAcceptable, ExitCode.USAGE),
    (errors.Unauthorized, ExitCode.FORBIDDEN),
    (errors.Forbidden, ExitCode.FORBIDDEN),
    (errors.NotFound, ExitCode.NOT_FOUND),
    (errors.Conflict, ExitCode.CONFLICT),
    (errors.PreconditionFailed, ExitCode.CONFLICT),
    (errors.PreconditionRequired, ExitCode.CONFLICT),
    (errors.Unprocessable, ExitCode.USAGE),
    (errors.Locked, ExitCode.CONFLICT),
    (errors.Unavailable, ExitCode.UNAVAILABLE),
)


def of(error: errors.CantleError) -> ExitCode:
    """The number a command ends with for this failure."""
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), ExitCode.FAILED)
