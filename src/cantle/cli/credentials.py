"""What a command proves itself with: a token from the environment or a file, never from the command line, which every user can read."""

from __future__ import annotations

import os
from pathlib import Path

from cantle import errors

#: Holds a token.
VARIABLE = "CANTLE_TOKEN"

#: Bytes of a file that holds one; more is no token.
LARGEST = 4096


#: Each of them says that there is a cloud with Keystone, as for OpenStack's own commands.
CLOUD_VARIABLES = ("OS_CLOUD", "OS_AUTH_URL")


def cloud_is_named(cloud: str | None) -> bool:
    """Whether ``--os-cloud`` or the environment names a cloud with Keystone."""
    return bool(cloud) or any(os.environ.get(variable) for variable in CLOUD_VARIABLES)


def find(file: str | None, variable: str = VARIABLE) -> str | None:
    """The token: that in ``file`` if there is one, else that of the environment's ``variable``; None for neither.

    :raises BadConfig: ``token-unreadable``, ``token-malformed``.
    """
    if file is None:
        return _usable(os.environ.get(variable, "").strip(), variable) or None
    try:
        with Path(file).open("rb") as stream:
            text = stream.read(LARGEST + 1).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no plain text"
        raise errors.BadConfig(
            "token-unreadable", f"Cannot read the token in {file}: {why}. Name another file with --token-file."
        ) from error
    if not text:
        raise errors.BadConfig("token-malformed", f"{file} is empty; it should hold a token and nothing else.")
    return _usable(text, file)


def _usable(text: str, place: str) -> str:
    """A token that can stand in a header. What it is is not told: the message may end in a log."""
    if len(text) > LARGEST or not text.isascii() or not text.isprintable() or " " in text:
        raise errors.BadConfig(
            "token-malformed", f"What {place} holds is no token: a token is one word of letters, digits and signs."
        )
    return text
