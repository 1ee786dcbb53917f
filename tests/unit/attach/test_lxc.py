"""The configuration of LXC containers, edited beside what people wrote; on a tree of files, where no container runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.attach import lxc
from cantle.errors import Conflict, HostError, NotFound
from cantle.kernel.char_device import Node
from cantle.kernel.container import Layout
from cantle.kernel.root import Root
from cantle.kernel.undo import Undo

LEASE = "2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1"
OTHER = "00000000-0000-4000-8000-000000000001"
PLACE = "/run/cantle/lxc/c1/x.conf"
CARD = Node("/dev/nvidia0", 195, 0)
CONTROL = Node("/dev/nvidiactl", 195, 255, shared=True)

BY_HAND = """\
# Tuned by hand: \xe4 lot
lxc.rootfs.path = dir:/var/lib/lxc/c1/rootfs
   lxc.uts.name=c1\t
lxc.cgroup2.devices.deny = a

# lxc.include = /usr/share/lxc/config/nesting.conf
lxc.cgroup2.devices.allow = c 1:3 rwm"""

lines = st.one_of(
    st.sampled_from(["", "# by hand", "lxc.include = /etc/mine.conf", "  lxc.uts.name = c1  ", "lxc.idmap = u 0 1 2"]),
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=40),
)
configs = st.builds(lambda found, end: "\n".join(found) + end, st.lists(lines), st.sampled_from(["", "\n", "\n\n"]))


@given(configs)
def test_what_people_wrote_is_there_with_a_lease_and_without_it(config: str) -> None:
    lent = lxc.included(config, LEASE, PLACE)
    assert lent.startswith(config)
    assert lent.endswith(f"lxc.include = {PLACE}\n")
    after = lxc.excluded(lent, LEASE, PLACE)
    assert after.rstrip("\n") == config.rstrip("\n")
    assert after.startswith(config)


@given(configs)
def test_a_lease_is_there_once_however_often_it_is_written(config: str) -> None:
    once = lxc.included(config, LEASE, PLACE)
    assert lxc.included(once, LEASE, PLACE) == once


@given(configs, st.permutations([LEASE, OTHER]))
def test_leases_of_one_container_come_and_go_by_themselves(config: str, order: list[str]) -> None:
    place = {LEASE: "/run/a.conf", OTHER: "/run/b.conf"}
    both = lxc.included(lxc.included(config, LEASE, place[LEASE]), OTHER, place[OTHER])
    first, second = order
    one = lxc.excluded(both, first, place[first])
    assert place[second] in one
    assert place[first] not in one
    assert lxc.excluded(one, second, place[second]).rstrip("\n") == config.rstrip("\n")


@given(
    st.sampled_from(Layout),
    st.sets(
        st.builds(Node, st.sampled_from(["/dev/a", "/dev/dri/renderD128"]), st.integers(1, 511), st.integers(0, 9))
    ),
)
def test_the_book_says_what_it_was_told(layout: Layout, nodes: set[Node]) -> None:
    assert set(lxc.parse_entries(lxc.entries(layout, LEASE, nodes))) == nodes


def test_entries_name_the_key_that_rules_on_this_host() -> None:
    assert lxc.entries(Layout.V2, LEASE, [CARD]).split("\n")[1:3] == [
        "lxc.cgroup2.devices.allow = c 195:0 rw",
        "lxc.mount.entry = /dev/nvidia0 dev/nvidia0 none bind,create=file 0 0",
    ]
    assert "lxc.cgroup.devices.allow = c 195:0 rw" in lxc.entries(Layout.V1, LEASE, [CARD])


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A host of cgroup v2 with one container, c1, and the nodes of a card."""
    (tmp_path / "var/lib/lxc/c1").mkdir(parents=True)
    (tmp_path / "var/lib/lxc/c1/config").write_bytes(BY_HAND.encode("latin-1"))
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").write_text("cpu io\n")
    (tmp_path / "dev").mkdir()
    for node in (CARD, CONTROL):
        (tmp_path / node.path[1:]).write_text("")
    return tmp_path


def config(host: Path) -> bytes:
    return (host / "var/lib/lxc/c1/config").read_bytes()


def enter(host: Path, *nodes: Node, lease: str = LEASE, name: str = "c1") -> None:
    with Undo() as undo:
        lxc.enter(Root(host), name, lease, nodes, undo)


def leave(host: Path, lease: str = LEASE, name: str = "c1") -> None:
    with Undo() as undo:
        lxc.leave(Root(host), name, lease, undo)


def test_a_container_that_is_stopped_has_the_card_at_its_next_start(host: Path) -> None:
    enter(host, CARD, CONTROL)
    assert config(host) == (
        BY_HAND.encode("latin-1")
        + f"\n# cantle: lease {LEASE}\nlxc.include = /run/cantle/lxc/c1/{LEASE}.conf\n".encode()
    )
    book = (host / f"run/cantle/lxc/c1/{LEASE}.conf").read_text()
    assert lxc.parse_entries(book) == (CARD, Node("/dev/nvidiactl", 195, 255))
    assert lxc.stands(Root(host), "c1", LEASE, [CARD, CONTROL])
    leave(host)
    assert config(host) == BY_HAND.encode("latin-1") + b"\n"
    assert Root(host).names("run/cantle/lxc/c1") == []


def test_what_lies_in_a_nodes_place_is_gone_before_the_container_starts(host: Path) -> None:
    left = host / "var/lib/lxc/c1/rootfs" / CARD.path[1:]
    left.parent.mkdir(parents=True)
    enter(host, CARD)
    left.touch()
    lxc.refresh(Root(host), "c1", LEASE, [CARD])
    assert not left.exists()


def test_no_number_is_in_what_outlives_a_reboot(host: Path) -> None:
    enter(host, CARD)
    assert b"195" not in config(host).removeprefix(BY_HAND.encode("latin-1"))


def test_after_a_reboot_the_book_is_written_anew_with_the_numbers_of_this_boot(host: Path) -> None:
    enter(host, CARD)
    (host / f"run/cantle/lxc/c1/{LEASE}.conf").unlink()  # /run is empty after a boot
    now = Node(CARD.path, 240, 0)
    assert not lxc.stands(Root(host), "c1", LEASE, [now])
    enter(host, now)
    assert lxc.parse_entries((host / f"run/cantle/lxc/c1/{LEASE}.conf").read_text()) == (now,)
    assert config(host).count(b"lxc.include = /run/cantle") == 1


def test_a_line_that_somebody_took_out_is_missed(host: Path) -> None:
    enter(host, CARD)
    (host / "var/lib/lxc/c1/config").write_bytes(BY_HAND.encode("latin-1"))
    assert not lxc.stands(Root(host), "c1", LEASE, [CARD])


def test_a_container_that_is_not_there_is_named_and_nothing_is_written(host: Path) -> None:
    with pytest.raises(NotFound, match="/var/lib/lxc/c2/config") as caught:
        enter(host, CARD, name="c2")
    assert caught.value.code == "guest-not-found"
    assert not (host / "run").exists()


def test_a_lease_of_a_container_that_was_deleted_ends_all_the_same(host: Path) -> None:
    enter(host, CARD)
    (host / "var/lib/lxc/c1/config").unlink()
    leave(host)
    assert Root(host).names("run/cantle/lxc/c1") == []


def test_a_node_that_is_not_in_dev_would_keep_the_container_from_starting(host: Path) -> None:
    (host / "dev/nvidiactl").unlink()
    with pytest.raises(Conflict, match="/dev/nvidiactl") as caught:
        enter(host, CARD, CONTROL)
    assert caught.value.code == "node-missing"
    assert config(host) == BY_HAND.encode("latin-1")


def test_a_configuration_that_cannot_be_written_leaves_everything_as_it_was(host: Path) -> None:
    (host / "elsewhere").write_bytes(BY_HAND.encode("latin-1"))
    (host / "var/lib/lxc/c1/config").unlink()
    (host / "var/lib/lxc/c1/config").symlink_to("../../../../elsewhere")
    with pytest.raises(HostError) as caught:
        enter(host, CARD)
    assert caught.value.code in ("host-write-failed", "host-read-failed")
    assert (host / "elsewhere").read_bytes() == BY_HAND.encode("latin-1")
    assert not (host / f"run/cantle/lxc/c1/{LEASE}.conf").exists()


def test_without_a_device_cgroup_every_container_could_open_every_card(host: Path) -> None:
    (host / "sys/fs/cgroup/cgroup.controllers").unlink()
    with pytest.raises(Conflict, match="every container") as caught:
        enter(host, CARD)
    assert caught.value.code == "no-device-cgroup"
    assert config(host) == BY_HAND.encode("latin-1")
