"""Units of one card of which one is lent: the whole card's has the device's address for its key, all others are parts of it (virtual
functions, MIG instances, slices)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, and_, bindparam, or_, select, update

from cantle.model.attach_handle import AttachType
from cantle.store.tables import attach_handles, claims, deployables, devices, hosts
from cantle.store.types import Record

#: Units that are of one card. The fake driver's are not: they are of nothing.
TYPES = (AttachType.PCI, AttachType.NODES, AttachType.MDEV)

_lent = attach_handles.alias("lent")
_of_lent = deployables.alias("of_lent")
_own = claims.alias("own")

_BESIDE = (
    select(
        devices.c.host_id,
        hosts.c.hostname,
        devices.c.address,
        attach_handles.c.id,
        attach_handles.c.key,
        _own.c.id.is_not(None).label("is_lent"),
        _lent.c.key.label("lent_key"),
    )
    .select_from(
        claims.join(_lent, and_(_lent.c.id == claims.c.attach_handle_id, _lent.c.attach_type.in_(TYPES)))
        .join(_of_lent, _of_lent.c.id == _lent.c.deployable_id)
        .join(devices, devices.c.id == _of_lent.c.device_id)
        .join(hosts, hosts.c.id == devices.c.host_id)
        .join(deployables, deployables.c.device_id == devices.c.id)
        .join(
            attach_handles,
            and_(
                attach_handles.c.deployable_id == deployables.c.id,
                attach_handles.c.attach_type.in_(TYPES),
                attach_handles.c.key != _lent.c.key,
                or_(attach_handles.c.key == devices.c.address, _lent.c.key == devices.c.address),
            ),
        )
        .outerjoin(_own, _own.c.attach_handle_id == attach_handles.c.id)
    )
    .where(or_(attach_handles.c.present, _own.c.id.is_not(None)))
    .order_by(devices.c.host_id, devices.c.address, attach_handles.c.key, _lent.c.key)
)
_HIDE = update(attach_handles).where(attach_handles.c.id.in_(bindparam("ids", expanding=True))).values(present=False)
_LOOK_AGAIN = update(hosts).where(hosts.c.id.in_(bindparam("host_ids", expanding=True))).values(digest=None)


def beside_lent(connection: Connection) -> Sequence[Record]:
    """host_id, hostname, address (of the card), id, key and is_lent of every unit that could be lent, or is, though the relative lent_key
    is. There is none while nobody has written into the database by hand."""
    return connection.execute(_BESIDE).all()


def hide(connection: Connection, handle_ids: Collection[int]) -> None:
    """Offer these units no more, until a report names them again."""
    connection.execute(_HIDE, {"ids": sorted(handle_ids)})


def look_again(connection: Connection, host_ids: Collection[int]) -> None:
    """The next report of these hosts is looked at in full, also if it is that of before."""
    connection.execute(_LOOK_AGAIN, {"host_ids": sorted(host_ids)})
