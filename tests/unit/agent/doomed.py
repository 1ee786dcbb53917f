"""An agent that is killed right after one of its writes: ``python -m tests.unit.agent.doomed URL TREE DIRECTORY NTH``."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from tests.unit.agent.service import SEED, TOKEN

from cantle import simulate
from cantle.agent.agent import Agent


def main(url: str, tree: str, directory: str, nth: str) -> None:
    """Run until killed."""
    root = simulate.SimulatedRoot(Path(tree))
    root.fail(lambda: os.kill(os.getpid(), signal.SIGKILL), nth=int(nth), after=True)
    Agent(
        hostname="node1",
        root=root,
        server_url=url,
        state_dir=Path(directory),
        enabled_types=SEED,
        stop=threading.Event(),
        token=TOKEN,
    ).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
