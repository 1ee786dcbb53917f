"""On which socket each memory node is, as the kernel's files say it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kernel.tree import Tree

from cantle.kernel import numa


def machine(tree: Tree, nodes: dict[int, str], packages: dict[int, str]) -> None:
    """Nodes by number with their ``cpulist``; CPUs by number with their package. Files and directories that are no node lie there too."""
    for name in ("possible", "online", "has_cpu", "node"):
        tree.file(f"sys/devices/system/node/{name}", "0\n")
    for number, cpus in nodes.items():
        tree.file(f"sys/devices/system/node/node{number}/cpulist", f"{cpus}\n")
    for cpu, package in packages.items():
        tree.file(f"sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id", f"{package}\n")


@pytest.mark.parametrize(
    ("nodes", "packages", "sockets"),
    [
        pytest.param({}, {}, {}, id="no NUMA"),
        pytest.param(
            {0: "0-1", 1: "2-3"},
            dict.fromkeys((0, 1), "0") | dict.fromkeys((2, 3), "1"),
            {0: 0, 1: 1},
            id="two sockets",
        ),
        pytest.param({0: "0,2", 1: "1,3"}, dict.fromkeys(range(4), "0"), {0: 0, 1: 0}, id="two nodes of one socket"),
        pytest.param({0: "0-1"}, {0: "0", 1: "1"}, {0: None}, id="two sockets in one node"),
        pytest.param({0: "0-1", 8: "2"}, dict.fromkeys((0, 1), "0") | {2: "8"}, {0: 0, 8: 8}, id="numbers with gaps"),
        pytest.param({0: "0-1", 2: ""}, dict.fromkeys((0, 1), "0"), {0: 0}, id="memory alone"),
        pytest.param({0: "0-1"}, {0: "0"}, {0: 0}, id="a CPU that has just gone offline"),
        pytest.param({0: "0-1"}, {}, {0: None}, id="no CPU says it"),
        pytest.param({0: "0-1"}, dict.fromkeys((0, 1), "-1"), {0: None}, id="the firmware does not say"),
        pytest.param({0: "what?"}, {0: "0"}, {0: None}, id="a list that is none"),
    ],
)
def test_the_socket_of_a_node_is_that_of_all_its_cpus(
    tree: Tree, nodes: dict[int, str], packages: dict[int, str], sockets: dict[int, int | None]
) -> None:
    machine(tree, nodes, packages)
    assert numa.sockets(tree.root) == (sockets, [])


def test_a_node_that_cannot_be_read_is_unknown_and_hides_no_other(tree: Tree) -> None:
    machine(tree, {0: "0", 1: "1"}, {0: "0", 1: "1"})
    (tree.base / "sys/devices/system/node/node1/cpulist").unlink()
    (tree.base / "sys/devices/system/node/node1/cpulist").mkdir()
    sockets, problems = numa.sockets(tree.root)
    assert sockets == {0: 0, 1: None}
    assert [(one.source, one.code) for one in problems] == [("NUMA node 1", "host-read-failed")]
    assert "/sys/devices/system/node/node1/cpulist" in problems[0].message


@given(st.sets(st.integers(0, 5000), max_size=40))
def test_every_list_that_the_kernel_prints_is_read(cpus: set[int]) -> None:
    parts, left = [], sorted(cpus)
    while left:
        run = [left.pop(0)]
        while left and left[0] == run[-1] + 1:
            run.append(left.pop(0))
        parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
    assert numa.cpu_list(",".join(parts)) == sorted(cpus)


@pytest.mark.parametrize(
    "text", [None, "3-1", "a", "0,", ",", "0-99999999", "0-65536", "0-40000,0-40000", "-1", "0-1-2"]
)
def test_a_list_that_is_none_is_not_guessed_at(text: str | None) -> None:
    assert numa.cpu_list(text) is None
