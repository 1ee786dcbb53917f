"""What a host must not forget, put on its disk before it is acted upon; and what follows where that cannot be done."""

from __future__ import annotations

import logging

from cantle.agent import conditions, following
from cantle.agent.conditions import Conditions
from cantle.agent.desired import Desired
from cantle.agent.hands import Hands
from cantle.errors import HostError
from cantle.wire.work import WantedHandle, Work

_log = logging.getLogger(__name__)


class Memory:
    """That of one host.

    :param hands: have what is known, and write it.
    :param told: is told when the disk cannot be written: that is said in each report, and tried again at each look.
    :ivar unsaved: what is wanted could not be put on the disk.
    :ivar held_back: new units, which cannot be touched until it is: code and message, by uuid.
    :ivar gone: units that the server knows to have gone.
    """

    def __init__(self, hostname: str, hands: Hands, told: Conditions) -> None:
        self._hostname = hostname
        self._hands = hands
        self._conditions = told
        self.unsaved = False
        self.held_back: dict[str, tuple[str, str]] = {}
        self.gone: set[str] = set()

    @property
    def now(self) -> Desired:
        """What is known."""
        return self._hands.memory

    @property
    def wanted(self) -> tuple[WantedHandle, ...]:
        """Units that were wanted when the server was heard last."""
        return self.now.work.wanted if self.now.work is not None else ()

    def keep(self, memory: Desired) -> bool:
        """Put it on the disk. Whether that could be done."""
        try:
            self._hands.remember(memory, again=conditions.UNWRITABLE in self._conditions)
        except HostError as error:
            if self._conditions.set(conditions.UNWRITABLE, error.message):
                _log.error("%s: %s", self._hostname, error)
            return False
        self._conditions.set(conditions.UNWRITABLE, None)
        return True

    def try_again(self) -> None:
        """Find out whether the disk can be written now, if it could not."""
        if conditions.UNWRITABLE in self._conditions:
            self.keep(self.now)

    def follow(self, work: Work) -> None:
        """Remember what is followed. Where that fails, units are taken back all the same, and new ones are not touched."""
        new = self.new_units(work)
        self.unsaved = not self.keep(following.next_memory(self.now, work, self.gone))
        if not self.unsaved:
            self.held_back = {}
            self.gone.clear()
        else:
            why = self._conditions.message(conditions.UNWRITABLE)
            self.held_back = {handle.uuid: (conditions.UNWRITABLE, why) for handle in new}

    def new_units(self, work: Work) -> list[WantedHandle]:
        """Units that are wanted and were not before."""
        known = {handle.uuid for handle in self.wanted}
        return [handle for handle in work.wanted if handle.uuid not in known]
