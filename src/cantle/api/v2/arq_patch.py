"""The body of ``PATCH /v2/accelerator_requests``: ``{"<uuid>": [{"path", "op", "value"}, …], …}``, read into binds or unbinds."""

from __future__ import annotations

from typing import Any

import msgspec

from cantle.api import microversion
from cantle.api.call import Call
from cantle.engine.access import need_service
from cantle.engine.bind import Bind, Unbind
from cantle.errors import BadRequest, TooLarge
from cantle.model.uuids import canonical, checked

_NEEDED = ("/hostname", "/device_rp_uuid", "/instance_uuid")
_PROJECT = "/project_id"


class Op(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step of a JSON patch; ``value`` may be anything in a ``remove``. A path may lack its slash, as in Cyborg."""

    op: str
    path: str
    value: Any = None

    @property
    def field(self) -> str:
        """The path as it should be written."""
        return f"/{self.path.lstrip('/')}"


def read(call: Call) -> tuple[list[Bind], list[Unbind]]:
    """The binds of a body of ``add``, or the unbinds of one of ``remove``; never both.

    :raises BadRequest: ``patch-empty``, ``patch-mixed``, ``patch-path``, ``patch-value``, ``bad-uuid``.
    :raises TooLarge: ``patch-too-large``.
    :raises NotAcceptable: ``microversion-too-low``. :raises Forbidden: ``service-token-needed``.
    """
    patches: dict[str, list[Op]] = call.body
    kind = _kind(patches)
    need_service(call.who)
    limit = call.site.settings.patch_limit
    if len(patches) > limit:
        raise TooLarge(
            "patch-too-large",
            f"The body names {len(patches)} accelerator requests, and one call may change {limit}; send several calls.",
            limit=limit,
        )
    uuids = {text: canonical(text) or text for text in patches}
    if len(set(uuids.values())) < len(uuids):
        raise BadRequest("patch-path", "The body names one accelerator request twice.")
    for text, ops in patches.items():
        _check_paths(call, text, ops)
    if kind == "remove":
        return [], [Unbind(uuid) for uuid in uuids.values()]
    return [_bind(uuids[text], {op.field: op.value for op in ops}) for text, ops in patches.items()], []


def _kind(patches: dict[str, list[Op]]) -> str:
    """``add`` or ``remove``."""
    if not patches or not all(patches.values()):
        raise BadRequest(
            "patch-empty", "The body must name at least one accelerator request, each with at least one operation."
        )
    kinds = {op.op for ops in patches.values() for op in ops}
    unknown = kinds - {"add", "remove"}
    if unknown:
        raise BadRequest(
            "patch-mixed", f"The operation '{min(unknown)}' is not known; 'add' binds and 'remove' unbinds."
        )
    if len(kinds) > 1:
        raise BadRequest(
            "patch-mixed", "The body has both 'add' and 'remove'; bind and unbind in requests of their own."
        )
    return kinds.pop()


def _check_paths(call: Call, uuid: str, ops: list[Op]) -> None:
    paths = [op.field for op in ops]
    for path in paths:
        if path not in (*_NEEDED, _PROJECT):
            raise BadRequest(
                "patch-path",
                f"The path '{path}' of {uuid} is not known; there are {', '.join(_NEEDED)} and {_PROJECT}.",
            )
    if len(set(paths)) < len(paths):
        raise BadRequest("patch-path", f"The operations of {uuid} name one path twice.")
    if _PROJECT in paths:
        microversion.needed(call.minor, microversion.PROJECT_IN_BIND, f"The path '{_PROJECT}'")


def _bind(uuid: str, values: dict[str, Any]) -> Bind:
    missing = [path for path in _NEEDED if path not in values]
    if missing:
        raise BadRequest("patch-path", f"Binding {uuid} needs {', '.join(missing)} too.")
    return Bind(
        arq_uuid=uuid,
        hostname=_text(uuid, "/hostname", values),
        device_rp_uuid=checked(_text(uuid, "/device_rp_uuid", values), "device_rp_uuid"),
        instance_uuid=checked(_text(uuid, "/instance_uuid", values), "instance_uuid"),
        project_id=_text(uuid, _PROJECT, values) if _PROJECT in values else None,
    )


def _text(uuid: str, path: str, values: dict[str, Any]) -> str:
    value = values[path]
    if not isinstance(value, str) or not value or len(value) > 255:
        raise BadRequest("patch-value", f"The value of '{path}' for {uuid} must be a text of 1 to 255 characters.")
    return value
