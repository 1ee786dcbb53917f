"""Root: reads, writes and links stay below their directory, and failures say which file and why."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cantle.errors import BadRequest, HostError
from cantle.kernel.root import Root


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A root directory with a secret beside it."""
    (tmp_path / "secret").write_text("outside\n")
    host = tmp_path / "host"
    (host / "sys/devices/card").mkdir(parents=True)
    (host / "sys/devices/card/vendor").write_text("0x10de\n")
    (host / "sys/bus").mkdir()
    (host / "sys/bus/card").symlink_to("../devices/card")
    return host


def test_a_file_is_read_without_its_last_newline(host: Path) -> None:
    assert Root(host).read("sys/devices/card/vendor") == "0x10de"


def test_only_one_newline_is_taken_off(host: Path) -> None:
    (host / "two").write_text("text\n\n")
    assert Root(host).read("two") == "text\n"


def test_a_file_longer_than_a_page_is_read_whole(host: Path) -> None:
    (host / "long").write_text("x" * 200_000)
    assert len(Root(host).read("long")) == 200_000


def test_bytes_that_are_no_text_do_not_stop_a_read(host: Path) -> None:
    (host / "odd").write_bytes(b"\xff\xfeT4\n")
    assert Root(host).read("odd") == "\ufffd\ufffdT4"


def test_the_zeros_with_which_tar_fills_a_captured_file_up_are_not_text(host: Path) -> None:
    (host / "padded").write_bytes(b"-1\n" + bytes(4093))
    assert Root(host).read("padded") == "-1"


def test_relative_links_inside_the_root_are_followed(host: Path) -> None:
    root = Root(host)
    assert root.read("sys/bus/card/vendor") == "0x10de"
    assert root.names("sys/bus/card") == ["vendor"]
    assert root.link("sys/bus/card") == "../devices/card"
    assert root.link_name("sys/bus/card") == "card"


def test_an_absolute_link_starts_again_at_the_root(host: Path) -> None:
    (host / "sys/absolute").symlink_to("/sys/devices/card")
    assert Root(host).read("sys/absolute/vendor") == "0x10de"


@pytest.mark.parametrize("target", ["../../../../../secret", "/../secret", "../../../secret"])
def test_no_link_leads_out_of_the_root(host: Path, target: str) -> None:
    (host / "sys/out").symlink_to(target)
    root = Root(host)
    assert root.read_or_none("sys/out") is None
    assert not root.exists("sys/out")
    with pytest.raises(HostError) as caught:
        root.write("sys/out", "overwritten")
    assert caught.value.errno == errno.ENOENT
    assert (host.parent / "secret").read_text() == "outside\n"


def test_a_link_in_place_of_an_attribute_is_not_followed_in_an_open_directory(host: Path) -> None:
    (host / "sys/devices/card/device").symlink_to(host.parent / "secret")
    with (
        Root(host).directory("sys/devices/card") as files,
        pytest.raises(HostError, match="/sys/devices/card/device") as caught,
    ):
        files.read_or_none("device")
    assert caught.value.errno == errno.ELOOP


def test_links_that_go_round_end_with_an_error(host: Path) -> None:
    (host / "sys/a").symlink_to("b")
    (host / "sys/b").symlink_to("a")
    with pytest.raises(HostError) as caught:
        Root(host).read("sys/a/vendor")
    assert caught.value.errno == errno.ELOOP


@pytest.mark.parametrize("rel", ["/sys/devices", "sys/../../secret", "..", "sys/\0"])
def test_a_path_that_is_not_below_the_root_is_refused(host: Path, rel: str) -> None:
    with pytest.raises(HostError) as caught:
        Root(host).read(rel)
    assert caught.value.code == "host-path-refused"


def test_a_name_with_two_dots_in_it_is_a_name(host: Path) -> None:
    (host / "sys/a..b").write_text("fine")
    assert Root(host).read("sys/a..b") == "fine"


def test_what_is_absent_is_none_and_no_names(host: Path) -> None:
    root = Root(host)
    assert root.read_or_none("sys/nothing") is None
    assert root.read_or_none("sys/devices/card/vendor/below-a-file") is None
    assert root.names("sys/nothing") == []
    assert root.link("sys/nothing") is None
    assert root.link("sys/devices/card/vendor") is None
    assert not root.exists("sys/nothing")
    assert root.exists("sys/bus/card/vendor")


def test_a_failure_names_the_file_as_the_host_knows_it(host: Path) -> None:
    with pytest.raises(HostError) as caught:
        Root(host).read("sys/nothing")
    assert (caught.value.code, caught.value.path, caught.value.errno) == (
        "host-read-failed",
        "/sys/nothing",
        errno.ENOENT,
    )
    assert str(caught.value) == "cannot read /sys/nothing: No such file or directory"


def test_only_absence_is_none_other_failures_are_raised(host: Path) -> None:
    with pytest.raises(HostError) as caught:
        Root(host).read_or_none("sys/devices")
    assert caught.value.errno == errno.EISDIR


@pytest.mark.parametrize("place", ["/", "captured"])
def test_every_way_to_ask_tells_a_failure_that_is_no_absence(host: Path, place: str) -> None:
    root = Root(place if place == "/" else host)
    rel = "x" * 300
    asked: list[Callable[[], object]] = [
        lambda: root.read_or_none(rel),
        lambda: root.names(rel),
        lambda: root.link(f"{rel}/driver"),
        lambda: root.exists(rel),
        lambda: root.directory_or_none(rel),
        lambda: root.write(rel, "1"),
    ]
    with root.directory("sys" if place != "/" else str(host)[1:]) as files:
        asked += [
            lambda: files.read_or_none(rel),
            lambda: files.link_name(rel),
            lambda: files.has(rel),
            lambda: files.directory_or_none(rel),
        ]
        for ask in asked:
            with pytest.raises(HostError) as caught:
                ask()
            assert caught.value.errno == errno.ENAMETOOLONG
            assert caught.value.path.startswith("/")


def test_without_proc_links_are_still_kept_inside(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (host / "sys/out").symlink_to("../../secret")
    root = Root(host)
    monkeypatch.setattr(Root, "_is_inside", lambda _root, _fd: False)
    assert root.read("sys/bus/card/vendor") == "0x10de"
    assert root.read_or_none("sys/out") is None


def test_a_fifo_in_a_captured_tree_does_not_hang(host: Path) -> None:
    os.mkfifo(host / "sys/fifo")
    assert Root(host).read("sys/fifo") == ""


def test_a_write_neither_creates_nor_truncates(host: Path) -> None:
    root = Root(host)
    root.write("sys/devices/card/vendor", "1")
    assert root.read("sys/devices/card/vendor") == "1x10de"
    with pytest.raises(HostError) as caught:
        root.write("sys/devices/card/remove", "1")
    assert (caught.value.code, caught.value.errno) == ("host-write-failed", errno.ENOENT)
    assert not (host / "sys/devices/card/remove").exists()


def test_a_root_that_is_no_directory_is_a_bad_request(host: Path) -> None:
    for path in (host / "nowhere", host / "sys/devices/card/vendor"):
        with pytest.raises(BadRequest, match="is not a directory"):
            Root(path)


def test_a_root_may_itself_be_reached_by_a_link(host: Path) -> None:
    (host.parent / "alias").symlink_to(host)
    assert Root(host.parent / "alias").read("sys/bus/card/vendor") == "0x10de"


def test_an_open_directory_is_closed_again(host: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with Root(host).directory("sys/bus/card") as files:
        assert files.read_or_none("vendor") == "0x10de"
        assert files.read_or_none("nothing") is None
        assert files.link_name("nothing") is None
        assert files.head_or_none("vendor", 2) == b"0x"
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_should_be_a_link_and_is_none_tells_of_a_bad_capture(host: Path) -> None:
    with (
        Root(host).directory("sys/bus/card") as files,
        pytest.raises(HostError, match=r"/sys/bus/card/vendor is no link, .* capture the tree with its links kept"),
    ):
        files.link_name("vendor")


def test_a_directory_in_an_open_one_is_no_link(host: Path) -> None:
    (host / "sys/devices/card/nvidia").mkdir()
    (host / "sys/devices/card/nvidia/current_vgpu_type").write_text("0\n")
    (host / "sys/devices/card/outside").symlink_to(host.parent)
    with Root(host).directory("sys/devices/card") as files:
        assert files.has("nvidia")
        assert files.has("outside")
        assert not files.has("nothing")
        inner = files.directory_or_none("nvidia")
        assert inner is not None
        with inner:
            assert inner.read_or_none("current_vgpu_type") == "0"
        assert files.directory_or_none("outside") is None
        assert files.directory_or_none("nothing") is None
    assert Root(host).directory_or_none("sys/nothing") is None


def test_whether_a_node_is_taken_is_known_of_devices_of_this_machine_alone(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "null").symlink_to("/dev/null")
    assert Root().is_taken("dev/null") is False
    assert Root().is_taken("dev/no-such-node") is None
    assert Root().is_taken("etc/passwd") is None
    assert Root(tmp_path).is_taken("dev/null") is None
    with pytest.raises(HostError):
        Root().is_taken("dev/../etc/passwd")


def test_a_file_of_the_system_s_is_removed_and_one_that_is_not_there_needs_no_removing(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "file").write_text("")
    root = Root(tmp_path)
    root.remove("etc/file")
    root.remove("etc/file")
    root.remove("no/such/file")
    assert not (tmp_path / "etc" / "file").exists()
