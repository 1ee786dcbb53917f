"""Take in a host's report: what it has and how well. Reports change what is known, never what is lent (spec S0.3, S0.6; promise 4)."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from cantle.engine import device_turn, fence, heartbeat, relatives, swap, units
from cantle.engine import report_columns as columns
from cantle.engine.clock import now
from cantle.engine.device_turn import DeviceTurn
from cantle.engine.pool import log_pools
from cantle.engine.report_check import sockets, unusable
from cantle.errors import BadRequest, Conflict
from cantle.model import uuids
from cantle.model.device import DeviceStatus, Health
from cantle.model.host import check_name
from cantle.model.problem import Problem
from cantle.store import host as hosts
from cantle.store import inventory as store
from cantle.store import kind as kinds
from cantle.store import stock
from cantle.store.database import Database, report_topic, wake
from cantle.store.types import Record, database_now
from cantle.wire.inventory import DeployableReport, DeviceReport, HandleReport, InventoryAnswer, InventoryReport


def accept_report(db: Database, hostname: str, report: InventoryReport) -> InventoryAnswer:
    """Take in a report. One with the digest of the last one writes nothing (but a sign of life, at most once a minute).

    A device the report does not name becomes ``missing``; nothing is deleted for that. A part of the report that cannot be kept is
    left out, becomes a problem of the host, and puts its device out of service if it was known.

    :raises BadRequest: ``bad-hostname``; ``bad-report`` for a digest or a start that cannot be kept.
    :raises Conflict: ``agent-fenced`` from an earlier life of the agent, ``host-is-another-machine``, ``machine-cloned``,
        ``protocol-mismatch``.
    """
    _check_words(report)
    check_name(hostname)
    try:
        return _accept(db, hostname, report)
    except Conflict as refusal:
        fence.warn(db, hostname, refusal)
        raise


def _accept(db: Database, hostname: str, report: InventoryReport) -> InventoryAnswer:
    fence.check_protocol(report.protocol)
    known = _known(db, hostname, report)
    if known is not None:
        heartbeat.reported(db, known, _skew(known, report))
        return InventoryAnswer(generation=known.generation, changed=False)

    def work(connection: Connection) -> tuple[int, InventoryAnswer, list[DeviceTurn]]:
        return _take_in(connection, hostname, report)

    host_id, answer, turned = db.run(work)
    device_turn.log(hostname, turned)
    heartbeat.written(db, host_id)
    if answer.changed:
        log_pools(db, hostname)
    return answer


def _check_words(report: InventoryReport) -> None:
    for name, text, least, most in (
        ("digest", report.digest, 1, 128),
        ("agent_start", report.agent_start, 1, 64),
        ("machine", report.machine, 0, 64),
        ("boot", report.boot, 0, 64),
        ("version", report.version, 0, 64),
    ):
        if not least <= len(text) <= most or "\0" in text:
            raise BadRequest(
                "bad-report", f"{name} has not {least} to {most} characters, or holds a NUL character.", field=name
            )
    if report.generation < 0 or not math.isfinite(report.clock or 0.0):
        raise BadRequest("bad-report", "generation is negative, or clock is no number.")


def _known(db: Database, hostname: str, report: InventoryReport) -> Record | None:
    """The host's row, if this very report was taken in from this very agent."""
    with db.read() as connection:
        row = hosts.find(connection, hostname)
    if row is None:
        return None
    fence.check_machine(row, report)
    fence.check_start(row, report.agent_start)
    same = (row.digest, row.agent_start) == (report.digest, report.agent_start) and row.forgotten_at is None
    return row if same and not (fence.is_ahead(row, report.generation) and row.frozen_at is None) else None


def _skew(row: Record, report: InventoryReport) -> float | None:
    """Seconds by which the host's clock is ahead of the database's; None where it did not say."""
    return None if report.clock is None else report.clock - float(row.now.timestamp())


def _take_in(
    connection: Connection, hostname: str, report: InventoryReport
) -> tuple[int, InventoryAnswer, list[DeviceTurn]]:
    moment = now()
    row = hosts.find(connection, hostname, lock=True)
    if row is None:
        hosts.add(connection, hostname, moment)
        row = hosts.find(connection, hostname, lock=True)
        assert row is not None  # noqa: S101 - it was just made
    fence.check_machine(row, report)
    fence.check_start(row, report.agent_start)
    changed = row.digest != report.digest
    turned: list[DeviceTurn] = []
    values: dict[str, Any] = {**fence.life(row, report), "last_seen": database_now(), "forgotten_at": None}
    if (skew := _skew(row, report)) is not None:
        values["clock_skew_ms"] = hosts.milliseconds(skew)
    if changed:
        values["conditions"] = tuple(("agent", one.code[:64], one.message) for one in report.conditions)
        intake = _Intake(connection, row.id, moment)
        problems = intake.all_of(report)
        turned = intake.turned
        device_turn.tell(connection, hostname, turned, moment)
        # A report of which something is not taken in yet is looked at again when it comes again.
        digest = None if intake.waiting or intake.held_back else report.digest
        values |= {"digest": digest, "problems": problems, "sockets": sockets(report.sockets), "updated_at": moment}
        wake(connection, report_topic(hostname))
    hosts.change(connection, row.id, **values)
    return row.id, InventoryAnswer(generation=row.generation, changed=changed), turned


class _Intake:
    """One report of one host. The host's row is locked; rows are collected first and written table by table."""

    def __init__(self, connection: Connection, host_id: int, moment: dt.datetime) -> None:
        self._connection = connection
        self._host_id = host_id
        self._moment = moment
        self._standing = store.standing(connection, host_id)
        self._problems: list[Problem] = []
        self._kinds: dict[str, str] = {}
        #: Devices that are in another health than before.
        self.turned: list[DeviceTurn] = []
        #: By address, why what is there cannot be taken in before something else has gone.
        self.waiting: dict[str, str] = {}
        #: Some units are not taken in while a relative of theirs is lent.
        self.held_back = False

    def all_of(self, report: InventoryReport) -> list[Problem]:
        """Write what the report says; the report's problems and ours about it."""
        self._problems += [Problem(one.source, one.code, one.message) for one in report.problems]
        bad = unusable(report.devices)
        usable = [device for position, device in enumerate(report.devices) if position not in bad]
        distrusted = {report.devices[position].address: reason for position, reason in bad.items()}
        self.waiting, told = swap.make_room(self._connection, self._standing, usable)
        self._problems += told
        usable = [device for device in usable if device.address not in self.waiting]
        usable, told = relatives.hold_back(self._standing, usable)
        self._problems += told
        self.held_back = bool(told)
        numbers = self._devices(usable, distrusted)
        offered = self._deployables({device.address: device for device in usable}, numbers)
        self._handles(offered)
        self._attributes(offered)
        kinds.learn(self._connection, self._kinds, self._moment)
        stock.renew(self._connection, self._host_id)
        return self._problems

    def _devices(self, usable: list[DeviceReport], distrusted: Mapping[str, str]) -> dict[str, int]:
        """Numbers of the usable devices by address."""
        standing = self._standing.devices
        new = [device for device in usable if device.address not in standing]
        numbers = store.add(self._connection, "devices", [self._new_device(device) for device in new])
        changes = []
        seen = {device.address: device for device in usable}
        for address, row in standing.items():
            if address in seen:
                told = swap.remembered(row, seen[address])
                values = columns.device_values(seen[address]) | {"vendor_board_info": told}
            elif address in distrusted:
                values = columns.row_values(row) | {
                    "health": Health.FAILED,
                    "reason": f"what its host reports is unusable: {distrusted[address]}",
                }
            elif address in self.waiting:
                values = columns.row_values(row) | {"health": Health.MISSING, "reason": self.waiting[address]}
            else:
                values = columns.row_values(row) | {
                    "health": Health.MISSING,
                    "reason": "its host's last report did not name it",
                }
            if values != columns.row_values(row):
                changes.append({"id": row.id, "updated_at": self._moment, **values})
            if values["health"] != row.health:
                self.turned.append(DeviceTurn(row, str(values["health"]), values["reason"]))
        store.change(self._connection, "devices", changes)
        for address, reason in distrusted.items():
            self._problems.append(
                Problem(address[:255], "device-report-unusable", f"Left out of the report: {reason}.")
            )
        return {device.address: number for device, number in zip(new, numbers, strict=True)} | {
            address: row.id for address, row in standing.items() if address in seen
        }

    def _new_device(self, device: DeviceReport) -> dict[str, Any]:
        path_type, path_info = columns.control_path(device.address)
        return {
            "uuid": uuids.new(),
            "host_id": self._host_id,
            "address": device.address,
            "status": DeviceStatus.ENABLED,
            "control_path_uuid": uuids.new(),
            "control_path_type": path_type,
            "control_path_info": path_info,
            "created_at": self._moment,
            **columns.device_values(device),
        }

    def _deployables(
        self, usable: Mapping[str, DeviceReport], numbers: Mapping[str, int]
    ) -> dict[int, DeployableReport]:
        """What is offered, by number of the deployable. One that its device no longer offers stays, with nothing in it."""
        new: list[tuple[dict[str, Any], DeployableReport]] = []
        changes: list[dict[str, Any]] = []
        offered: dict[int, DeployableReport] = {}
        for address, device_id in numbers.items():
            reported = {one.name: one for one in usable[address].deployables}
            standing = self._standing.deployables.get(device_id, {})
            for name, one in reported.items():
                if name not in standing:
                    new.append((self._new_deployable(device_id, usable[address], one), one))
            for name, row in standing.items():
                one = reported.get(name) or columns.nothing(row)
                offered[row.id] = one
                kind = self._kind(usable[address], one) if name in reported else row.kind
                values = columns.offered_values(one, kind)
                if values != columns.row_offer(row):
                    changes.append({"id": row.id, "updated_at": self._moment, **values})
        made = store.add(self._connection, "deployables", [values for values, _ in new])
        store.change(self._connection, "deployables", changes)
        return offered | {number: one for number, (_, one) in zip(made, new, strict=True)}

    def _kind(self, device: DeviceReport, one: DeployableReport) -> str:
        digest, text = columns.kind(device, one)
        self._kinds[digest] = text
        return digest

    def _new_deployable(self, device_id: int, device: DeviceReport, one: DeployableReport) -> dict[str, Any]:
        return {
            "uuid": uuids.new(),
            "name": one.name,
            "device_id": device_id,
            "host_id": self._host_id,
            "rp_uuid": uuids.new(),
            "created_at": self._moment,
            **columns.offered_values(one, self._kind(device, one)),
        }

    def _handles(self, offered: Mapping[int, DeployableReport]) -> None:
        adopted = [handle.uuid for one in offered.values() for handle in one.handles if handle.uuid]
        homes = store.handles_with(self._connection, adopted) if adopted else {}
        new: list[dict[str, Any]] = []
        changes: list[dict[str, Any]] = []
        removed: list[int] = []
        for deployable_id, one in offered.items():
            plan = units.plan(self._ours(deployable_id, one, homes), self._standing.handles.get(deployable_id, {}))
            new += [{"deployable_id": deployable_id, "created_at": self._moment, **values} for values in plan.add]
            changes += [{"updated_at": self._moment, **values} for values in plan.change]
            removed += plan.remove
        store.remove(self._connection, "attach_handles", removed)
        store.change(self._connection, "attach_handles", changes)
        store.add(self._connection, "attach_handles", new)

    def _ours(self, deployable_id: int, one: DeployableReport, homes: Mapping[str, int]) -> list[HandleReport]:
        """The units of a deployable without those whose uuid is that of a unit elsewhere."""
        kept = []
        for handle in one.handles:
            if handle.uuid is not None and homes.get(handle.uuid, deployable_id) != deployable_id:
                message = f"Unit {handle.key} of {one.name} left out: its uuid {handle.uuid} is that of a unit of another card."
                self._problems.append(Problem(one.name, "handle-uuid-taken", message))
            else:
                kept.append(handle)
        return kept

    def _attributes(self, offered: Mapping[int, DeployableReport]) -> None:
        """What the host says, except where an operator wrote something else."""
        new: list[dict[str, Any]] = []
        changes: list[dict[str, Any]] = []
        removed: list[int] = []
        for deployable_id, one in offered.items():
            wanted = columns.attribute_values(one)
            standing = self._standing.attributes.get(deployable_id, {})
            new += [
                self._new_attribute(deployable_id, key, value) for key, value in wanted.items() if key not in standing
            ]
            for key, row in standing.items():
                if row.operator:
                    continue
                if key not in wanted:
                    removed.append(row.id)
                elif row.value != wanted[key]:
                    changes.append({"id": row.id, "value": wanted[key], "updated_at": self._moment})
        store.remove(self._connection, "attributes", removed)
        store.change(self._connection, "attributes", changes)
        store.add(self._connection, "attributes", new)

    def _new_attribute(self, deployable_id: int, key: str, value: str) -> dict[str, Any]:
        return {
            "uuid": uuids.new(),
            "deployable_id": deployable_id,
            "key": key,
            "value": value,
            "operator": False,
            "created_at": self._moment,
        }
