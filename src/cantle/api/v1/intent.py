"""``/v1/hosts/{host}/devices/{address}/intent``: what an operator wants a device to be. Changed with ``If-Match``, so that nobody undoes
what somebody else has changed meanwhile; the ETag is the intent's, whatever its state."""

from __future__ import annotations

import msgspec

from cantle.api.call import Call
from cantle.api.v2.resource import stamp
from cantle.engine import intent as engine
from cantle.model.device import Device
from cantle.model.intent import Intent


class NewIntent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client sends. The address in the path says which device; ``hardware`` "": the card that is there now."""

    mode: str
    types: dict[str, str] = {}
    hardware: str = ""


class Shape(msgspec.Struct, frozen=True):
    """An intent on the wire. ``state`` is ``pending``, ``applied`` or ``failed``; ``reason`` says what is waited for or went wrong."""

    device: str
    mode: str
    types: dict[str, str]
    hardware: str
    version: int
    etag: str
    state: str
    reason: str | None
    set_by: str
    updated_at: str | None


def show(call: Call) -> Shape:
    """The intent for a device."""
    return _answer(call, engine.get_intent(call.db, call.params["host"], call.params["address"]))


def put(call: Call) -> Shape:
    """Want something of a device; the answer comes before the host has followed."""
    new: NewIntent = call.body
    host = call.params["host"]
    wish = Intent.from_json({"device": call.params["address"], **msgspec.structs.asdict(new)})
    return _answer(call, engine.set_intent(call.db, call.who, host, wish, precondition=call.precondition))


def delete(call: Call) -> None:
    """Want nothing of it any more."""
    host, address = call.params["host"], call.params["address"]
    engine.clear_intent(call.db, call.who, host, address, precondition=call.precondition)


def _answer(call: Call, device: Device) -> Shape:
    intent, status = device.intent.intent, device.intent
    assert intent is not None  # noqa: S101 - the engine has looked
    call.headers["ETag"] = f'"{intent.etag}"'
    return Shape(
        device=intent.device,
        mode=intent.mode,
        types=dict(intent.types),
        hardware=intent.hardware,
        version=intent.version,
        etag=intent.etag,
        state=status.state,
        reason=device.intent_reason,
        set_by=status.set_by,
        updated_at=stamp(status.updated_at or status.created_at),
    )
