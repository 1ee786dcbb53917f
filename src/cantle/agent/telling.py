"""What the server is told of units: each outcome once, and again where it was not heard."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from cantle.agent.client import Client
from cantle.agent.reports import Reports
from cantle.agent.upkeep import Upkeep
from cantle.errors import CantleError
from cantle.wire.work import HandleResult, Outcome, Results

_log = logging.getLogger(__name__)


class Telling:
    """That of one host.

    :ivar generation: of the work that outcomes are told of; None until the server was heard in this life.
    """

    def __init__(self, hostname: str, client: Client, upkeep: Upkeep, reports: Reports) -> None:
        self._hostname = hostname
        self._client = client
        self._upkeep = upkeep
        self._reports = reports
        self.generation: int | None = None
        #: Outcomes the server has taken, by uuid, and those it has yet to hear.
        self._told: dict[str, HandleResult] = {}
        self._untold: list[HandleResult] = []

    @property
    def is_late(self) -> bool:
        """Whether there is something that the server has yet to hear."""
        return bool(self._untold)

    @property
    def gone(self) -> set[str]:
        """Uuids of units that the server knows to have gone."""
        return {uuid for uuid, result in self._told.items() if result.outcome is Outcome.ABSENT}

    def forget(self) -> None:
        """Another state is wanted: all outcomes are told anew."""
        self._told.clear()
        self._untold = []

    def tell(self, results: Iterable[HandleResult]) -> None:
        """Tell what is news.

        :raises CantleError: as :meth:`cantle.agent.client.Client.results`; then it is late.
        """
        outcomes = list(results)
        self._untold = [result for result in outcomes if self._told.get(result.uuid) != result]
        if self._untold and self.generation is not None:
            self._upkeep.hand_over(outcomes)
            self._send(self.generation, self._untold)
            self._told.update((result.uuid, result) for result in self._untold)
            self._untold = []

    def refuse(self, generation: int, results: Iterable[HandleResult]) -> None:
        """Say what is not done of work that is not followed.

        :raises CantleError: as :meth:`tell`.
        """
        refused = list(results)
        if refused:
            self._send(generation, refused)

    def cleaning(self, uuid: str) -> None:
        """Say that nobody holds a unit any more, before what may take a while. Where that fails, the result will say it too."""
        if self.generation is None:
            return
        try:
            self._send(self.generation, [HandleResult(uuid, Outcome.CLEANING)])
        except CantleError as error:
            _log.warning("%s: the server could not be told that %s is being cleaned: %s", self._hostname, uuid, error)

    def _send(self, generation: int, results: list[HandleResult]) -> None:
        self._reports.doubt()  # what is offered may be another after it
        self._client.results(Results(self._upkeep.start, generation, tuple(results)))
