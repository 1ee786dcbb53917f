"""One run: an installation in the state in which an operation begins, the operation, what happens at one step of it, and the end."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

from tests.chaos import published, publishing, view
from tests.chaos.client import PATIENCE_S, Client, Patience
from tests.chaos.cloud import Child, Cloud, copy_host, make_place
from tests.chaos.databases import Databases
from tests.chaos.points import Flag, Point, Step
from tests.chaos.roles import Place
from tests.chaos.scenario import End, Facts, Scenario
from tests.chaos.scenarios import SCENARIOS

from cantle import simulate

_TICK_S = 0.01
#: Looking costs as much as working does.
_LOOK_S = 0.05
#: How long everything must be at rest until it counts as that.
_REST_S = 0.3


@dataclass(frozen=True)
class Outcome:
    """What became of a run. ``point`` None: nothing was to happen.

    :param fired: whether the step was come to.
    :param problems: what is not as it must be.
    """

    point: str | None
    fired: bool
    problems: tuple[str, ...]
    seconds: float
    steps: tuple[str, ...] = ()

    def dumps(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def loads(cls, text: str) -> Self:
        """From JSON."""
        found = json.loads(text)
        return cls(**{**found, "problems": tuple(found["problems"]), "steps": tuple(found["steps"])})


@dataclass(frozen=True)
class Saved:
    """The end of each scenario is kept below the directory, so that others begin there; databases have the scenarios' names."""

    directory: Path
    databases: Databases

    def of(self, scenario: str) -> Path:
        """Where it is kept."""
        return self.directory / "saved" / scenario

    def begin(self, scenario: Scenario, name: str) -> tuple[Place, Facts]:
        """A new place in which it can begin."""
        directory = self.directory / "runs" / name
        directory.mkdir(parents=True)
        facts: Facts = {}
        if scenario.base is None:
            simulate.build(publishing.host(scenario.name), directory / "host")
            self.databases.copy("empty", name)
            if scenario.publishing:
                shutil.copy(self.directory / "placement.db", directory)
        else:
            copy_host(self.of(scenario.base), directory)
            self.databases.copy(scenario.base, name)
            facts = json.loads((self.of(scenario.base) / "facts").read_text())
            shutil.copy(self.of(scenario.base) / "heard.jsonl", directory)
        url, publishes = self.databases.url(name), scenario.publishing
        place = make_place(directory, url, refusing=scenario.refusing, publishing=publishes, pooled=scenario.pooled)
        return place, facts

    def keep(self, scenario: Scenario, name: str) -> None:
        """Keep the end of a run."""
        source, target = self.directory / "runs" / name, self.of(scenario.name)
        target.mkdir(parents=True)
        copy_host(source, target)
        shutil.copy(source / "facts", target)
        before, heard = source / "heard-before.jsonl", source / "heard.jsonl"
        (target / "heard.jsonl").write_text("".join(one.read_text() for one in (before, heard) if one.exists()))
        self.databases.copy(name, scenario.name)

    def drop(self, name: str) -> None:
        """Delete a run."""
        shutil.rmtree(self.directory / "runs" / name)
        self.databases.drop(name)


def run(saved: Saved, scenario: Scenario, name: str, point: Point | None = None) -> Outcome:
    """Run it once, in a process with one thread. Without a point its steps are recorded. What failed is kept."""
    began = time.monotonic()
    place, facts = saved.begin(scenario, name)
    cloud = Cloud(place, saved.databases, name, plan=point, record=point is None)
    problems: list[str] = []
    try:
        _operate(cloud, scenario, facts)
        if scenario.publishing:
            problems += published.broken(place)
    except AssertionError as error:
        problems.append(str(error))
    finally:
        cloud.board[Flag.ARMED] = 0
        cloud.stop()
    problems = problems or view.broken(place, scenario.end)
    steps = tuple((place.directory / "steps").read_text().splitlines()) if point is None else ()
    fired = bool(cloud.board[Flag.FIRED])
    outcome = Outcome(str(point) if point else None, fired, tuple(problems), time.monotonic() - began, steps)
    if point is not None and not problems:
        saved.drop(name)
    return outcome


def _operate(cloud: Cloud, scenario: Scenario, before: Facts) -> None:
    """:raises AssertionError: the end did not come about."""
    place = cloud.place
    at_once = scenario.base is None or scenario.starting
    if at_once:
        cloud.board[Flag.ARMED] = 1  # the start itself is the operation
    cloud.start()
    if scenario.base is not None and not at_once:
        _until_at_rest(cloud, SCENARIOS[scenario.base], before)
        if scenario.agent_away:
            cloud.stop_agent()
        place.heard.rename(place.heard_before)
        cloud.board[Flag.ARMED] = 1
    child = cloud.client(lambda: _act(place, scenario, before))
    _until_client_is_done(cloud, child)
    cloud.start_agent()
    facts = json.loads((place.directory / "facts").read_text())
    _until_at_rest(cloud, scenario, facts)


def _act(place: Place, scenario: Scenario, before: Facts) -> None:
    facts = scenario.act(Client(place), before)
    fresh = place.directory / "facts"
    fresh.write_text(json.dumps(facts))


def _until_client_is_done(cloud: Cloud, child: Child) -> None:
    patience = Patience(2 * PATIENCE_S)
    while (status := child.look()) is None:
        patience.use("the client is stuck")
        cloud.tend()
        time.sleep(_TICK_S)
    assert status == 0, f"the client was refused or gave up; see {cloud.place.directory / 'log'}"


def _until_at_rest(cloud: Cloud, scenario: Scenario, facts: Facts) -> None:
    """Until what was asked for is there, no event is on its way, the agent waits for work, and it stays so for a moment."""
    client = Client(cloud.place, timeout=0.5)
    patience = Patience()
    armed = cloud.board[Flag.ARMED]
    wanted = scenario.end if armed else replace(scenario.end, nova=frozenset(), told=frozenset())
    since: float | None = None
    while since is None or time.monotonic() < since + (_REST_S if armed else 0):
        cloud.tend()
        why = _unrest(cloud, client, wanted, facts)
        since = None if why else since or time.monotonic()
        patience.use(f"stuck: {why}")
        time.sleep(_LOOK_S)


def _unrest(cloud: Cloud, client: Client, wanted: End, facts: Facts) -> str | None:
    try:
        if not cloud.board[Flag.AGENT_WAITS]:
            return "the agent is busy"
        why = view.missing(client, wanted, facts)
        if why is None and cloud.board[Flag.ARMED] and not view.settled(cloud.place):
            why = "events are on their way"
    except OSError as error:
        return f"nobody answers: {error}"
    except Exception as error:  # noqa: BLE001 - the database may be cut off just now; it is looked at again
        return f"the database does not answer: {error}"
    return why


def steps_of(outcome: Outcome) -> list[Step]:
    """The recorded steps, each once, in the order of their names."""
    found = {tuple(line.split("/")) for line in outcome.steps}
    return sorted(Step(role, name, int(nth)) for role, name, nth in found)
