"""Containers of Incus, by its API: a stand-in daemon that keeps to the API's description (:mod:`tests.unit.attach.incus_daemon`)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.attach.incus_daemon import Daemon

from cantle.attach import incus, incus_api, stop
from cantle.errors import Conflict, HostError, NotFound
from cantle.kernel.char_device import Node
from cantle.kernel.root import Root
from cantle.kernel.undo import Undo
from cantle.model.attachment import Attachment

LEASE = "2f1c7e0a-5a7e-4a52-8a53-4cf1a2f0c7d1"
OTHER = "00000000-0000-4000-8000-000000000001"
CARD = Node("/dev/nvidia0", 195, 0)
SECOND = Node("/dev/nvidia1", 195, 1)
CONTROL = Node("/dev/nvidiactl", 195, 255, shared=True)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    """A host without anything."""
    return Root(tmp_path)


@pytest.fixture
def daemon(root: Root) -> Iterator[Daemon]:
    """With one container, c1."""
    made = Daemon(root)
    made.add("c1")
    yield made
    made.stop()


def enter(root: Root, *nodes: Node, lease: str = LEASE) -> None:
    with Undo() as undo:
        incus.enter(root, "c1", lease, nodes, undo)


def leave(root: Root, lease: str = LEASE) -> None:
    with Undo() as undo:
        incus.leave(root, "c1", lease, undo)


def paths(daemon: Daemon, lease: str = "") -> set[str]:
    devices = daemon.instances["c1"]["devices"]
    return {one["path"] for name, one in devices.items() if name.startswith(f"cantle-{lease}")}


def test_a_container_has_the_nodes_as_devices_until_its_lease_ends_and_keeps_its_own(
    root: Root, daemon: Daemon
) -> None:
    before = copy.deepcopy(daemon.instances["c1"])
    enter(root, CARD, CONTROL)
    assert daemon.instances["c1"]["devices"][f"cantle-{LEASE}-0"] == {
        "type": "unix-char",
        "source": "/dev/nvidia0",
        "path": "/dev/nvidia0",
        "mode": "0666",
    }
    assert daemon.instances["c1"]["devices"]["data"] == before["devices"]["data"]
    assert incus.stands(root, "c1", LEASE, [CARD, CONTROL])
    leave(root)
    assert daemon.instances["c1"] == before
    leave(root)
    assert daemon.writes == 2


def test_a_second_pass_writes_nothing_and_no_number_is_kept(root: Root, daemon: Daemon) -> None:
    enter(root, CARD)
    enter(root, Node(CARD.path, 240, 7))
    assert daemon.writes == 1
    assert "195" not in str(daemon.instances["c1"]["devices"])


def test_a_device_that_somebody_took_out_is_missed_and_put_back(root: Root, daemon: Daemon) -> None:
    enter(root, CARD)
    daemon.instances["c1"]["devices"].pop(f"cantle-{LEASE}-0")
    assert not incus.stands(root, "c1", LEASE, [CARD])
    enter(root, CARD)
    assert paths(daemon) == {"/dev/nvidia0"}


@pytest.mark.parametrize("first", [LEASE, OTHER])
def test_what_two_leases_share_is_there_once_and_goes_with_the_last_of_them(
    root: Root, daemon: Daemon, first: str
) -> None:
    enter(root, CARD, CONTROL, lease=LEASE)
    enter(root, SECOND, CONTROL, lease=OTHER)
    assert sorted(one["path"] for one in daemon.instances["c1"]["devices"].values()) == [
        "/data",
        "/dev/nvidia0",
        "/dev/nvidia1",
        "/dev/nvidiactl",
    ]
    assert incus.stands(root, "c1", OTHER, [SECOND, CONTROL])
    leave(root, first)
    left = OTHER if first == LEASE else LEASE
    its = SECOND if left == OTHER else CARD
    assert paths(daemon) == {its.path, "/dev/nvidiactl"}
    enter(root, its, CONTROL, lease=left)
    assert incus.stands(root, "c1", left, [its, CONTROL])
    leave(root, left)
    assert paths(daemon) == set()


def test_what_somebody_else_wrote_meanwhile_is_kept(root: Root, daemon: Daemon) -> None:
    def once() -> None:
        daemon.meanwhile = lambda: None
        daemon.instances["c1"]["config"]["limits.cpu"] = "2"

    daemon.meanwhile = once
    enter(root, CARD)
    assert daemon.instances["c1"]["config"]["limits.cpu"] == "2"
    assert paths(daemon) == {"/dev/nvidia0"}


def test_a_container_that_never_holds_still_is_left_alone(root: Root, daemon: Daemon) -> None:
    numbers = iter(range(100))

    def always() -> None:
        daemon.instances["c1"]["config"]["user.number"] = str(next(numbers))

    daemon.meanwhile = always
    with pytest.raises(Conflict) as caught:
        enter(root, CARD)
    assert caught.value.code == "guest-changes"
    assert paths(daemon) == set()


def test_a_device_that_the_daemon_cannot_apply_leaves_the_container_as_it_was(root: Root, daemon: Daemon) -> None:
    before = copy.deepcopy(daemon.instances["c1"])
    daemon.fault = "Failed to start device: no such file or directory"
    with pytest.raises(HostError, match="no such file or directory") as caught:
        enter(root, CARD)
    assert caught.value.code == "incus-refused"
    assert daemon.instances["c1"] == before


def test_a_later_failure_takes_back_what_was_given(root: Root, daemon: Daemon) -> None:
    def and_fail(act: Callable[[Undo], None]) -> None:
        with Undo() as undo:
            act(undo)
            raise HostError("tool-not-run", "another step failed")

    before = copy.deepcopy(daemon.instances["c1"])
    with pytest.raises(HostError, match="another step failed"):
        and_fail(lambda undo: incus.enter(root, "c1", LEASE, [CARD], undo))
    assert daemon.instances["c1"] == before
    enter(root, CARD)
    lent = copy.deepcopy(daemon.instances["c1"])
    with pytest.raises(HostError, match="another step failed"):
        and_fail(lambda undo: incus.leave(root, "c1", LEASE, undo))
    assert daemon.instances["c1"] == lent


def test_a_container_is_started_once(root: Root, daemon: Daemon) -> None:
    daemon.instances["c1"].update(status="Stopped", status_code=102)
    assert incus.start(root, "c1")
    assert daemon.instances["c1"]["status"] == "Running"
    assert not incus.start(root, "c1")


def test_a_paused_container_is_not_taken_for_stopped(root: Root, daemon: Daemon) -> None:
    """The daemon refused to start it, so the lease with --start failed; one that was to stop it at its end left it as it was."""
    enter(root, CARD)
    daemon.instances["c1"].update(status="Frozen", status_code=110)
    assert incus.runs(root, "c1", LEASE)
    assert not incus.start(root, "c1")
    assert "stopped" in str(stop.stop(root, Attachment.parse("incus:c1"), LEASE, "unit"))
    assert not incus.runs(root, "c1", LEASE)


def test_a_container_that_the_daemon_still_stops_is_waited_for(
    root: Root, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a start that failed, what the lease had given to the container could not be taken back from it."""
    enter(root, CARD)
    monkeypatch.setattr(incus_api, "_MOMENT", 0.01)
    daemon.fault = 'Failed to create instance update operation: Instance is busy running a "stop" operation'
    leave(root)
    assert paths(daemon) == set()
    monkeypatch.setattr(incus_api, "_PATIENCE", 0.0)
    daemon.fault = 'Instance is busy running a "stop" operation'
    with pytest.raises(HostError, match="busy") as caught:
        enter(root, CARD)
    assert caught.value.code == "incus-refused"


def test_a_change_that_the_daemon_forgot_is_not_taken_for_a_container_that_is_gone(root: Root, daemon: Daemon) -> None:
    """It was started again between the change and the question what came of it: a lease ended whose container may still have its nodes."""
    enter(root, CARD)
    daemon.forgets = True
    with pytest.raises(HostError, match="what came of it") as caught:
        leave(root)
    assert caught.value.code == "incus-refused"
    daemon.forgets = False
    leave(root)
    assert paths(daemon) == set()


def test_a_container_that_is_not_there_is_named_and_one_that_was_deleted_has_been_left(
    root: Root, daemon: Daemon
) -> None:
    enter(root, CARD)
    del daemon.instances["c1"]
    leave(root)
    with pytest.raises(NotFound) as caught:
        enter(root, CARD)
    assert caught.value.code == "guest-not-found"


def test_a_virtual_machine_is_refused(root: Root, daemon: Daemon) -> None:
    daemon.instances["c1"]["type"] = "virtual-machine"
    with pytest.raises(Conflict) as caught:
        enter(root, CARD)
    assert caught.value.code == "guest-not-container"


def test_a_host_without_a_daemon_says_so(root: Root) -> None:
    with pytest.raises(HostError, match="neither Incus nor LXD") as caught:
        enter(root, CARD)
    assert caught.value.code == "incus-away"


def test_there_is_nothing_to_take_from_where_no_daemon_is_installed(root: Root) -> None:
    leave(root)
    assert not incus.runs(root, "c1", LEASE)


def test_a_daemon_that_is_stopped_may_have_what_it_was_given(root: Root, tmp_path: Path) -> None:
    (tmp_path / "var/lib/incus").mkdir(parents=True)
    with pytest.raises(HostError, match=r"var/lib/incus/unix\.socket") as caught:
        leave(root)
    assert caught.value.code == "incus-away"


def test_a_virtual_machine_has_nothing_that_could_be_taken(root: Root, daemon: Daemon) -> None:
    daemon.instances["c1"]["type"] = "virtual-machine"
    leave(root)
    assert not incus.runs(root, "c1", LEASE)


def test_a_daemon_that_has_gone_says_so(root: Root, tmp_path: Path) -> None:
    (tmp_path / "var/lib/incus").mkdir(parents=True)
    (tmp_path / "var/lib/incus/unix.socket").write_text("")
    with pytest.raises(HostError) as caught:
        enter(root, CARD)
    assert caught.value.code == "incus-away"


def test_a_container_whose_lease_says_so_is_stopped_and_by_force_when_it_does_not_listen(
    root: Root, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = Attachment.parse("incus:c1")
    assert stop.stop(root, guest, LEASE, "unit") is None
    enter(root, CARD)
    monkeypatch.setattr(stop, "_WAIT", 0.0)
    daemon.fault = 'Failed shutting down instance, status is "Running": context deadline exceeded'
    with pytest.raises(Conflict) as caught:
        stop.stop(root, guest, LEASE, "unit")
    assert caught.value.code == "guest-stopping"
    monkeypatch.setattr(stop, "_PATIENCE", 0.0)
    assert "by force" in str(stop.stop(root, guest, LEASE, "unit"))
    assert daemon.instances["c1"]["status"] == "Stopped"
