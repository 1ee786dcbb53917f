"""``python -m tests.chaos``: the crash matrix, whole or in part."""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.chaos.case import Outcome
from tests.chaos.matrix import Matrix, Progress, replay, table
from tests.chaos.points import Point
from tests.chaos.scenarios import PREPARE_ONLY, SCENARIOS

#: What one run of everything must have at least.
FEWEST = 300


def main() -> int:
    """Exit code 0 when every point came to its end, else 1."""
    asked = _arguments()
    failed = 0
    for kind in asked.database or ["sqlite", "postgresql"]:
        matrix = Matrix(kind, jobs=asked.jobs, directory=asked.directory)
        wanted = [Point.parse(text) for text in asked.point or []]
        names = {point.scenario for point in wanted} or set(asked.scenario or SCENARIOS) - PREPARE_ONLY
        steps = matrix.record(sorted(names))
        points = wanted or matrix.points({name: steps[name] for name in sorted(names)})
        if asked.sample:
            points = random.Random(asked.seed).sample(points, min(asked.sample, len(points)))  # noqa: S311 - the same each time
        outcomes = _run(matrix, points)
        bad = _report(kind, outcomes, whole=not (asked.sample or asked.point or asked.scenario))
        matrix.close(keep=bad > 0 or asked.keep)
        if bad or asked.keep:
            print(f"kept: {matrix.directory}/runs")
        failed += bad
    return 1 if failed else 0


def _run(matrix: Matrix, points: Sequence[Point]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    progress = Progress(matrix.kind, len(points))
    for outcome in matrix.run(points):
        outcomes.append(outcome)
        if outcome.problems:
            print(f"\nFAILED {outcome.point} ({outcome.seconds:.1f} s)")
            print("".join(f"  {problem}\n" for problem in outcome.problems), end="")
            print(f"  {replay(matrix.kind, outcome.point or '')}", flush=True)
        progress.step(sum(bool(one.problems) for one in outcomes))
    return outcomes


def _report(kind: str, outcomes: Sequence[Outcome], *, whole: bool) -> int:
    """Print what came of it; how many failed."""
    reached = [one for one in outcomes if one.fired]
    missed = [one for one in outcomes if not one.fired and not one.problems]
    bad = sum(bool(one.problems) for one in outcomes)
    print(table(kind, outcomes))
    print(f"{kind}: {len(reached)} points, {bad} failed, {len(missed)} steps not come to again")
    if whole and len(reached) < FEWEST:
        print(f"{kind}: fewer than {FEWEST} points")
        return bad + 1
    return bad


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--database", action="append", choices=["sqlite", "postgresql"], help="default: both")
    parser.add_argument("--scenario", action="append", choices=[name for name in SCENARIOS if name not in PREPARE_ONLY])
    parser.add_argument("--point", action="append", help="make this one happen; repeat for more")
    parser.add_argument("--sample", type=int, help="so many points, chosen by chance")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time")
    parser.add_argument("--directory", type=Path, help="where to work")
    parser.add_argument("--keep", action="store_true", help="keep everything")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
