"""Memory of ``cantle serve`` after the demo's job: profile, lease, release. Goal: a peak of at most 110 MB RSS.

The peak is the kernel's own figure (VmHWM) for the server's process; migrations run in a child whose memory goes with it and
is shown apart.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from bench.server import cantle, serving

GOAL_MB = 110.0
JOBS = 20


def main() -> int:
    """Measure, print, and return 1 when the goal is missed."""
    with serving() as server:
        while "VGPU" not in cantle("capacity"):
            time.sleep(0.1)
        idle = memory(server.pid, "VmRSS")
        cantle("profile", "create", "small", "--group", "resources:VGPU=1")
        job()
        once = memory(server.pid, "VmHWM")
        for _ in range(JOBS):
            job()
        often = memory(server.pid, "VmHWM")
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{'idle, RSS':48} {idle:6.1f} MB")
    print(f"{'after one lease and release, peak':48} {once:6.1f} MB")
    print(f"{f'after {JOBS} more, peak':48} {often:6.1f} MB")
    print(f"{'largest process of all, migrations included':48} {child:6.1f} MB")
    print(f"goal: peak <= {GOAL_MB:.0f} MB: {'met' if once <= GOAL_MB else 'MISSED'}")
    return int(once > GOAL_MB)


def job() -> None:
    """Borrow one and give it back."""
    lease = json.loads(cantle("lease", "create", "small", "--wait", "-o", "json"))
    cantle("lease", "release", lease["uuid"], "--wait")


def memory(pid: int, field: str) -> float:
    """A line of the process's status, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024


if __name__ == "__main__":
    sys.exit(main())
