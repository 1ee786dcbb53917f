"""Certificates by their fingerprint: the SHA-256 of the whole certificate in DER, as ``openssl x509 -fingerprint -sha256`` prints it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

from cantle.errors import BadRequest

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----\s*([A-Za-z0-9+/=\s]+?)\s*-----END CERTIFICATE-----")
_HEX = re.compile(r"[0-9a-f]{64}")


def each(pem: str) -> list[str]:
    """The certificates of a PEM file, each as a PEM text of its own; what else the file holds is left out."""
    return [found.group() + "\n" for found in _PEM.finditer(pem)]


def fingerprint(pem: str) -> str:
    """``sha256:`` and 64 hex digits, of the first certificate of a PEM text.

    :raises BadRequest: ``bad-certificate``: there is none in it.
    """
    found = _PEM.search(pem)
    try:
        der = base64.b64decode(re.sub(r"\s", "", found[1]), validate=True) if found else b""
    except binascii.Error:
        der = b""
    if not der:
        raise BadRequest("bad-certificate", "There is no certificate in PEM form in it.")
    return f"sha256:{hashlib.sha256(der).hexdigest()}"


def parse_fingerprint(text: str) -> str:
    """A fingerprint as people write it: with or without ``sha256:``, with or without colons, in either case.

    :raises BadRequest: ``bad-fingerprint``.
    """
    plain = text.strip().lower().removeprefix("sha256 fingerprint=").removeprefix("sha256:").replace(":", "")
    found = _HEX.fullmatch(plain)
    if found is None:
        raise BadRequest("bad-fingerprint", f"{text[:100]!r} is no fingerprint; write it as sha256: and 64 hex digits.")
    return f"sha256:{plain}"
