"""A host of cgroup v2 alone: one that is made for a program, in namespaces of its own."""

from __future__ import annotations

from collections.abc import Sequence

#: The hierarchies of v1 are out of sight, and engines make their cgroups below one of ours. The shell stays, as the process 1 that takes in
#: orphans: while one is not, its container cannot end.
_ALONE = """
set -e
umount -R /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
home=/sys/fs/cgroup/cantle-test
mkdir -p $home
echo $$ > $home/cgroup.procs
"$@"
exit $?
"""


def alone(argv: Sequence[str]) -> list[str]:
    """The command that runs this one there."""
    return ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", _ALONE, "sh", *argv]
