"""What a host says became of its units. This is where a bind is settled and where a unit that was taken back becomes free again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from sqlalchemy import Connection

from cantle.engine import absent, announce, audit, loan
from cantle.engine.clock import now
from cantle.engine.fence import check_protocol, check_start
from cantle.errors import Conflict
from cantle.model import uuids
from cantle.model.arq import ArqState
from cantle.model.audit import UNIT_CLEANING, UNIT_HELD, UNIT_QUARANTINED
from cantle.model.lease import FREED, Stage
from cantle.store import bind, claim, deployable, host
from cantle.store.database import Database, host_topic, lease_topic, wake
from cantle.store.faults import LookAgain
from cantle.store.types import Record
from cantle.wire.work import Cleaning, HandleResult, Outcome, Results

_NO_GUESTS = (
    "The unit was made ready and is in no guest: this host's agent is of a version that puts nothing into guests. Upgrade it, or lease "
    "without an attachment."
)
#: How codes begin that say nothing against a card: its guest is not there, or takes nothing.
_OF_GUESTS = ("guest-", "agent-knows-no-guests", "cdi-name-taken")


@dataclass(slots=True)
class _Changes:
    """What the results of one call change."""

    moment: dt.datetime
    hostname: str
    arqs: list[dict[str, Any]] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    free: list[Record] = field(default_factory=list)
    failing: list[int] = field(default_factory=list)
    taken_back: bool = False
    leases: set[str] = field(default_factory=set)
    settled: list[announce.Settled] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)

    def settle(self, row: Record, to: ArqState, result: HandleResult | None = None) -> None:
        """The ARQ of a claim goes to another state, with the result's reason if there is one."""
        code, why = (result.code or "step-failed", result.message) if result is not None else (None, None)
        self.arqs.append(
            {
                "arq_id": row.arq_id,
                "from_state": row.state,
                "to_state": to,
                "code": code,
                "why": why,
                "now": self.moment,
            }
        )
        if row.state == ArqState.BIND_STARTED:
            self.settled.append(announce.Settled(row, to, code, why))
            ready = to is ArqState.BOUND
            self.lines.append(loan.lent(row, self.hostname) if ready else loan.failed(row, self.hostname, code, why))

    def note(self, row: Record, *, wanted: bool, result: HandleResult, stage: Stage | None = None) -> None:
        """A claim carries the reason of a failure, and how far the host is with the unit."""
        code = result.code if stage is Stage.CLEANING else result.code or "step-failed"
        self.claims.append(
            {
                "claim_id": row.id,
                "is_wanted": wanted,
                "code": code,
                "why": result.message,
                "to_stage": stage,
                "now": self.moment,
            }
        )


def accept_results(db: Database, hostname: str, results: Results) -> None:
    """Take in what became of units. A result that is older than the claim it speaks of, or that no longer fits, is passed over.

    - ``ready`` for a unit that is wanted: its ARQ is Bound. With a code and a message for one that is Bound already they are shown on the
      ARQ, such as that its guest has gone: the loan stands.
    - ``failed`` for one that is being bound: BindFailed with the reason, and the unit is to be taken back. For one that is Bound already
      (after a reboot, say) the loan stands, the reason is shown on the ARQ, and the agent goes on trying: absence ends no lease.
    - ``failed`` for one to be taken back: it stays claimed with the reason; an ARQ that is still Unbound becomes UnbindFailed.
    - ``cleaning`` for one to be taken back: nobody holds it, it stays claimed until it is clean; ``quarantined``: until it is clean after
      all, or a person takes it as it is. Between a host's attempts it stays so, and is said once.
    - ``absent`` for one to be taken back: nobody holds it, it can be lent again.

    :raises NotFound: ``host-not-found``.
    :raises Conflict: ``agent-fenced``, ``protocol-mismatch``; ``report-first`` from an agent that has not reported since its start.
    """
    check_protocol(results.protocol)

    def work(connection: Connection) -> None:
        row = host.spoken_for(connection, hostname, lock=True)
        if row is None:
            raise absent.report(hostname)
        check_start(row, results.agent_start)
        if row.agent_start != results.agent_start:
            raise Conflict(
                "report-first",
                f"The agent of {hostname} has not sent an inventory since its start; it does that first.",
            )
        _apply(connection, row, _changes(connection, row, _believed(row, results)))

    db.run(work)


def _believed(host: Record, results: Results) -> Results:
    """Of a frozen host it is not known which of two machines speaks, or what it still has: that a unit is gone is not believed."""
    if host.frozen_at is None:
        return results
    kept = tuple(one for one in results.results if one.outcome != Outcome.ABSENT)
    return msgspec.structs.replace(results, results=kept)


def _changes(connection: Connection, reporter: Record, results: Results) -> _Changes:
    by_uuid = {uuid: _plain(one) for one in results.results if (uuid := uuids.canonical(one.uuid)) is not None}
    changes = _Changes(now(), reporter.hostname)
    for uuid, row in claim.of_handles(connection, reporter.id, sorted(by_uuid)).items():
        if results.generation < row.generation:
            continue
        _one(changes, row, by_uuid[uuid])
    return changes


def _plain(result: HandleResult) -> HandleResult:
    """The result with code and message as every database takes them."""
    code, message = result.code, result.message
    return msgspec.structs.replace(
        result,
        code=code and code.replace("\0", "")[:64],
        message=message and message.replace("\0", "")[:4000],
        cleaning=result.cleaning
        and Cleaning(result.cleaning.method.replace("\0", "")[:64], result.cleaning.done.replace("\0", "")),
    )


def _one(changes: _Changes, row: Record, result: HandleResult) -> None:
    before = len(changes.arqs) + len(changes.claims) + len(changes.free)
    if row.wanted:
        _of_wanted(changes, row, result)
    else:
        _of_unwanted(changes, row, result)
    if row.lease_uuid is not None and len(changes.arqs) + len(changes.claims) + len(changes.free) > before:
        changes.leases.add(row.lease_uuid)


def _of_wanted(changes: _Changes, row: Record, result: HandleResult) -> None:
    if result.outcome == Outcome.READY and row.guest_kind is not None and not result.entered:
        result = HandleResult(result.uuid, Outcome.FAILED, "agent-knows-no-guests", _NO_GUESTS)
    if result.outcome == Outcome.READY:
        if row.state == ArqState.BIND_STARTED:
            changes.settle(row, ArqState.BOUND)
        elif row.state == ArqState.BOUND and row.arq_reason_code != result.code:
            changes.settle(row, ArqState.BOUND, result if result.code is not None else None)
    elif result.outcome == Outcome.FAILED:
        if row.state == ArqState.BIND_STARTED:
            changes.settle(row, ArqState.BIND_FAILED, result)
            changes.note(row, wanted=False, result=result)
            if not (result.code or "").startswith(_OF_GUESTS):
                changes.failing.append(row.deployable_id)
            changes.taken_back = True
        elif row.state == ArqState.BOUND and row.arq_reason_code != (result.code or "step-failed"):
            changes.settle(row, ArqState.BOUND, result)


def _of_unwanted(changes: _Changes, row: Record, result: HandleResult) -> None:
    if result.outcome == Outcome.ABSENT:
        changes.free.append(row)
        changes.lines.append(loan.returned(row, changes.hostname, _cleaned(result)))
        if row.state == ArqState.UNBIND_FAILED:
            changes.settle(row, ArqState.UNBOUND)
    elif result.outcome == Outcome.CLEANING:
        if (
            row.stage not in FREED
        ):  # of a unit in quarantine it is tried again and again: it is there until that succeeds
            changes.note(row, wanted=False, result=result, stage=Stage.CLEANING)
            changes.lines.append(loan.ending(row, changes.hostname, UNIT_CLEANING))
    elif result.outcome in (Outcome.FAILED, Outcome.QUARANTINED):
        _not_back(changes, row, result)


def _not_back(changes: _Changes, row: Record, result: HandleResult) -> None:
    """A unit that is still held, or could not be cleaned. Said once in the audit log, until it is for another reason."""
    stage = Stage.QUARANTINED if result.outcome == Outcome.QUARANTINED else None
    code = result.code or "step-failed"
    if (row.stage, row.reason_code, row.reason) != (stage, code, result.message):
        changes.note(row, wanted=False, result=result, stage=stage)
    if (row.stage, row.reason_code) != (stage, code):
        action = UNIT_QUARANTINED if stage else UNIT_HELD
        changes.lines.append(loan.ending(row, changes.hostname, action, code, result.message))
    if row.state == ArqState.UNBOUND:
        changes.settle(row, ArqState.UNBIND_FAILED, result)


def _cleaned(result: HandleResult) -> dict[str, str]:
    """What was done to a unit that is back, as facts."""
    return {} if result.cleaning is None else {"cleaning": result.cleaning.method, "done": result.cleaning.done}


def _gone(free: Sequence[Record]) -> list[int]:
    """Handles that do not come back with their claims: those the host had stopped naming, and those for which it has no room."""
    gone = [row.handle_id for row in free if not row.present]
    surplus = {row.deployable_id: row.surplus for row in free}
    for row in free:
        if not row.present:
            surplus[row.deployable_id] -= 1
    for row in free:
        if row.present and surplus[row.deployable_id] > 0:
            surplus[row.deployable_id] -= 1
            gone.append(row.handle_id)
    return gone


def _apply(connection: Connection, row: Record, changes: _Changes) -> None:
    before = announce.leases_now(connection, changes.leases)
    if changes.taken_back:
        host.lock(connection, [row.id])  # raises the generation: what the host should do has changed
        wake(connection, host_topic(row.hostname))
    if changes.failing:
        deployable.failed(connection, changes.failing)
    if changes.arqs:
        _settle(connection, changes)
    if changes.claims:
        claim.note(connection, changes.claims)
    if changes.free:
        claim.remove(connection, [one.id for one in changes.free])
        gone = _gone(changes.free)
        if gone:
            # Only a report that is read in full says how many units there are now.
            claim.remove_handles(connection, gone)
            host.change(connection, row.id, digest=None)
    audit.record_all(connection, changes.lines)
    announce.leases_changed(connection, before, changes.moment)
    for uuid in changes.leases:
        wake(connection, lease_topic(uuid))


def _settle(connection: Connection, changes: _Changes) -> None:
    """Change the ARQs and say so."""
    ends = {one.row.arq_id: one for one in changes.settled}
    rows = [
        {
            **values,
            "announced": announce.announced_s(connection, ends[number])
            if (number := values["arq_id"]) in ends
            else 0.0,
        }
        for values in {
            values["arq_id"]: values for values in reversed(changes.arqs)
        }.values()  # two units, one request: said once
    ]
    if bind.settle(connection, rows) < len(rows):
        raise LookAgain  # somebody let go of one of them meanwhile, and nothing is said that did not happen
    announce.arqs_settled(connection, changes.settled, changes.moment)
