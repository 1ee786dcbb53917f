"""What of a configuration cannot take effect, since units that it would take away are lent (spec S1.4). Looks only."""

from __future__ import annotations

from cantle.agent.desired import Desired
from cantle.errors import BadConfig
from cantle.kernel import mdev
from cantle.kernel.root import Root
from cantle.model.attach_handle import AttachType
from cantle.model.enabled_types import EnabledType, EnabledTypes
from cantle.model.naming import driver_word
from cantle.wire.work import WantedHandle


def refusals(root: Root, enabled: EnabledTypes, desired: Desired) -> list[str]:
    """One sentence for each lent unit of a host that the configuration would take away; the cards keep what they are until it is back.

    :param desired: the host's memory. Cards with an intent that names their type are none of the configuration's business.
    """
    if desired.work is None:
        return []
    wished = {one.device for one in desired.work.intents if one.mode is not None and (one.types or one.mode != "mdev")}
    lent = [*desired.work.wanted, *desired.work.unwanted]
    told = [_refusal(root, enabled, desired, handle) for handle in lent if handle.device not in wished]
    return [sentence for sentence in told if sentence is not None]


def check(root: Root, enabled: EnabledTypes, desired: Desired) -> None:
    """The same as an error.

    :raises BadConfig: ``config-refused``.
    """
    told = refusals(root, enabled, desired)
    if told:
        lines = told[0] if len(told) == 1 else "\n  ".join([f"{len(told)} units are in the way:", *told])
        raise BadConfig("config-refused", lines, refusals=told)


def _refusal(root: Root, enabled: EnabledTypes, desired: Desired, handle: WantedHandle) -> str | None:
    named = enabled.named(handle.device, *mdev.other_names(root, handle.device))
    match handle.attach_type:
        case AttachType.PCI if named is not None:
            return f"{handle.device} is lent whole ({handle.uuid}), and {named.type_id} is enabled for it"
        case AttachType.MDEV:
            return _refusal_of_slice(named or _default(enabled, _type(handle)), desired, handle)
        case _:
            return None


def _refusal_of_slice(wanted: EnabledType | None, desired: Desired, handle: WantedHandle) -> str | None:
    lent = f"{_type(handle)} of {handle.device} is lent ({handle.uuid})"
    if wanted is None:
        return f"{lent}, and no type is enabled for it any more"
    if wanted.type_id != _type(handle):
        return f"{lent}, and {wanted.type_id} is enabled for it"
    known = desired.known.get(handle.device)
    if known is not None and known.resource_class not in ("", wanted.resource_class):
        return f"{lent} as {known.resource_class}, and {wanted.resource_class} is configured"
    return None


def _type(handle: WantedHandle) -> str:
    return handle.attach_info.get("asked_type", "")


def _default(enabled: EnabledTypes, lent: str) -> EnabledType | None:
    """The default type, if it is for cards of the kind that the lent one is from."""
    default = enabled.default
    return default if default is not None and driver_word(default.type_id) == driver_word(lent) else None
