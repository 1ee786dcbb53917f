"""Whether lent units are where they were lent to, as far as the host's files tell. It changes nothing: a lease whose guest has gone stands
until it is released, expires or is ended by a person; this only says so."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cantle.attach import lxc
from cantle.attach.domains import Domain
from cantle.errors import CantleError
from cantle.kernel import container
from cantle.kernel.root import Root
from cantle.model.attach_handle import AttachType
from cantle.model.attachment import GuestKind
from cantle.wire.work import HandleResult, Outcome, WantedHandle

GONE = "guest-gone"
STOPPED = "guest-stopped"
NOT_IN_GUEST = "unit-not-in-guest"

_log = logging.getLogger(__name__)

#: Code and message.
Remark = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a look at the guests gave.

    :param guests: by uuid of a unit, the uuid of the domain that has or last had it.
    :param remarks: by uuid of a unit, what is not as it was.
    """

    guests: dict[str, str]
    remarks: dict[str, Remark]


@dataclass(frozen=True, slots=True)
class Stopped:
    """What a look at the containers gave.

    :param unknown: of some it could not be found out whether they run.
    """

    remarks: dict[str, Remark]
    unknown: bool


def look(units: Iterable[WantedHandle], domains: Iterable[Domain], before: Mapping[str, str]) -> Seen:
    """Compare lent units with guests. Of a unit that was never seen in one nothing is said: it may have been lent to something else, or
    its guest is yet to start; and nothing of one whose guest is only shut down.

    :param before: ``guests`` of the last look.
    """
    known = list(domains)
    guests: dict[str, str] = {}
    remarks: dict[str, Remark] = {}
    for unit in units:
        name = unit.device if unit.attach_type is AttachType.PCI else unit.uuid
        having = next((one for one in known if name in one.devices), None)
        last = having.uuid if having is not None else before.get(unit.uuid)
        if last is None:
            continue
        guests[unit.uuid] = last
        remark = _remark(unit, name, last, known)
        if remark is not None:
            remarks[unit.uuid] = remark
    return Seen(guests, remarks)


def stopped(root: Root, units: Iterable[WantedHandle], before: Mapping[str, Remark]) -> Stopped:
    """What there is to say of units whose container does not run. Of one that is starting, or is not there, nothing is said. A monitor
    that does not answer in time is no container that runs: what was said last stands then.

    :param before: what was said last.
    """
    remarks: dict[str, Remark] = {}
    runs: dict[str, bool | None] = {}
    for unit in units:
        if unit.guest is None or unit.guest.kind != GuestKind.LXC or not root.is_machine:
            continue
        name = unit.guest.name
        if name not in runs:
            runs[name] = _runs(root, name)
        if runs[name] is False:
            said = f"lxc:{name} does not run; it has this unit again when it starts, and the lease stands until it is released"
            remarks[unit.uuid] = (STOPPED, said)
        elif runs[name] is None and before.get(unit.uuid, ("", ""))[0] == STOPPED:
            remarks[unit.uuid] = before[unit.uuid]
    return Stopped(remarks, unknown=None in runs.values())


def _runs(root: Root, name: str) -> bool | None:
    """Whether a container runs, or is not there; None where that cannot be found out."""
    try:
        return not lxc.is_there(root, name) or container.init_pid(root, name) is not None
    except CantleError as error:
        _log.warning("whether lxc:%s runs cannot be found out: %s", name, error)
        return None


def _remark(unit: WantedHandle, name: str, last: str, known: Sequence[Domain]) -> Remark | None:
    """``known`` has running domains first, so what is defined of one that runs does not count."""
    domain = next((one for one in known if one.uuid == last), None)
    stands = "the lease stands until it is released"
    if domain is None:
        return GONE, f"the guest {last} that had {name} neither runs nor is defined on this host any more; {stands}"
    if name in domain.devices:
        return None
    lacking = [one for one in known if one.uuid == last and name not in one.devices]
    return NOT_IN_GUEST, f"{name} is no device of the guest {domain} any more; {stands}. {_mend(unit, lacking)}"


def _mend(unit: WantedHandle, lacking: Sequence[Domain]) -> str:
    """How it gets there again: by whoever put it there."""
    if unit.guest is not None:
        return "It is put into it again by itself"
    domain = lacking[0]
    if domain.of_nova:
        return f"To have Nova put it in again: openstack server reboot --hard {domain.uuid}"
    flags = " ".join("--live" if one.running else "--config" for one in lacking)
    name = shlex.quote(domain.name)
    return (
        f"To put it in again, on this host (bash): virsh attach-device {name} <(cantle lease xml {unit.uuid}) {flags}"
    )


def remarked(results: Iterable[HandleResult], remarks: Mapping[str, Remark]) -> list[HandleResult]:
    """Results with what there is to say of units that are ready."""
    return [
        msgspec.structs.replace(one, code=remarks[one.uuid][0], message=remarks[one.uuid][1])
        if one.outcome is Outcome.READY and one.uuid in remarks
        else one
        for one in results
    ]
