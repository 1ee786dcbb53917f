"""Steps that wait for a guest: each guest has a worker of its own, so one that does not answer holds up no other guest's lease.

A pass waits for its workers a moment, then goes on without them; the next pass finds what came of them. Nothing of it is kept on the disk:
every step can be done again, and an agent that starts anew plans from what is there.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from cantle.agent import entering
from cantle.errors import CantleError, HostError
from cantle.kernel.root import Root
from cantle.kernel.undo import run_steps
from cantle.model.step import Step

#: Workers at once; guests beyond wait for the next pass.
AT_ONCE = 16
#: Seconds that a pass waits: what a guest that answers takes, mostly.
_MOMENT = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Done:
    """What came of one step: notes for a person, or why it failed."""

    notes: list[str] = field(default_factory=list)
    error: CantleError | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A step of :mod:`cantle.agent.entering` for the unit of this uuid."""

    uuid: str
    step: Step

    @property
    def key(self) -> tuple[str, str, str]:
        """By which its end is known: a unit that shall leave has nothing to do with how it entered, nor the next lease with this one."""
        return self.uuid, self.step.name, self.step.args["lease"]


class Entries:
    """Runs such steps. Safe to use from any thread.

    :ivar on_done: called when the last step of a guest has ended that a pass did not wait for.
    """

    def __init__(self, root: Root) -> None:
        self.on_done: Callable[[], object] = lambda: None
        self._root = root
        self._changed = threading.Condition()
        self._done: dict[tuple[str, str, str], Done] = {}
        #: Guests that have a worker, with the units it is to see to; and those of them that nobody waits for any more.
        self._busy: dict[str, frozenset[str]] = {}
        self._left: set[str] = set()

    def run(self, jobs: Iterable[Job], *, patient: bool = False) -> dict[str, Done]:
        """Do these steps, those of one guest in order; what came of them, by the unit's uuid. Those that still go on are missing.

        :param patient: wait until all have ended.
        """
        found: dict[str, Done] = {}
        begun: defaultdict[str, list[Job]] = defaultdict(list)
        with self._changed:
            for job in jobs:
                done = self._done.pop(job.key, None)
                if done is not None:
                    found[job.uuid] = done
                else:
                    begun[entering.guest_of(job.step)].append(job)
        fresh = set()
        for guest, its in begun.items():
            if not any(entering.waits(job.step) for job in its) and not self._is_busy(guest):
                found.update((job.uuid, self._do(job)) for job in its)
            elif self._begin(guest, its):
                fresh.add(guest)
        with self._changed:
            self._changed.wait_for(lambda: not fresh & self._busy.keys(), None if patient else _MOMENT)
            self._left |= begun.keys() & self._busy.keys()
            ended = [job for guest in fresh for job in begun[guest] if job.key in self._done]
            return found | {job.uuid: self._done.pop(job.key) for job in ended}

    def under_way(self) -> frozenset[str]:
        """Units on their way now: a guest may have them already, though nobody knows it yet."""
        with self._changed:
            return frozenset().union(*self._busy.values())

    def keep(self, uuids: Collection[str]) -> None:
        """Forget what came of other units' steps."""
        with self._changed:
            self._done = {key: done for key, done in self._done.items() if key[0] in uuids}

    def _is_busy(self, guest: str) -> bool:
        """Two at once would write into one container's configuration."""
        with self._changed:
            return guest in self._busy

    def _begin(self, guest: str, jobs: list[Job]) -> bool:
        """Whether this guest, or any more guests, can be worked on now."""
        with self._changed:
            if guest in self._busy or len(self._busy) >= AT_ONCE:
                self._left |= self._busy.keys()  # whoever ends first makes room
                return False
            self._busy[guest] = frozenset(job.uuid for job in jobs)
        threading.Thread(target=self._work, args=(guest, jobs), name=f"guest {guest}", daemon=True).start()
        return True

    def _work(self, guest: str, jobs: list[Job]) -> None:
        for job in jobs:
            done = self._do(job)
            with self._changed:
                self._done[job.key] = done
        with self._changed:
            del self._busy[guest]
            late = guest in self._left
            self._left.discard(guest)
            self._changed.notify_all()
        if late:
            self.on_done()

    def _do(self, job: Job) -> Done:
        try:
            return Done(run_steps(self._root, [job.step], entering.EXECUTORS))
        except CantleError as error:
            return Done(error=error)
        except Exception as error:  # noqa: BLE001 - a worker that ended without a word would leave its unit waiting for ever
            _log.exception("could not %s", job.step.sentence)
            return Done(
                error=HostError("agent-failed", f"the agent failed at it: {type(error).__name__}; its log has more")
            )
