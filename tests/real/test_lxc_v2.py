"""The tests of LXC once more, on a host of cgroup v2 alone: one that is made for them, in namespaces of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).with_name("test_lxc.py")

#: The hierarchies of v1 are out of sight, and liblxc makes its containers' cgroups below one of ours. The shell stays, as the process 1
#: that takes in orphans: while one is not, its container cannot end.
_V2_ALONE = """
set -e
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
home=/sys/fs/cgroup/cantle-test
mkdir -p $home
echo $$ > $home/cgroup.procs
"$@"
exit $?
"""


def test_it_all_holds_on_a_host_of_cgroup_v2_alone() -> None:
    argv = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", _V2_ALONE, "sh"]
    argv += [sys.executable, "-m", "pytest", str(TESTS), "-q", "-x", "-p", "no:cacheprovider"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
