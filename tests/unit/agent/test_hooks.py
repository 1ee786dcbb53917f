"""Guests that others start: their hooks ask a real agent, which makes ready what they have."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from tests.unit.agent.hooking import ask, install, lend, question, run, starts, unit
from tests.unit.agent.service import T4, Service, running

from cantle import simulate
from cantle.attach import lxc
from cantle.attach.hooks import installed
from cantle.kernel import mdev
from cantle.wire.hook import SOCKET


def test_a_guest_that_another_tool_starts_finds_its_slice_though_somebody_removed_it(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    install(host)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        slice_ = unit(lend(service))
        mdev.remove(host, slice_)
        assert starts(host, "stranger") == ""
        assert mdev.devices(host) == []
        assert starts(host, "v1", f'<address uuid="{slice_.upper()}"/>') == ""
        assert [one.uuid for one in mdev.devices(host)] == [slice_]
        assert run(host, installed.LIBVIRT, "v1", "release", "end", "-", xml="") == ""


@pytest.mark.parametrize(
    "name", ["--seconds=0", "-h", "v1; touch {0}", "$(touch {0})", "a b'\"\\`touch {0}`", "v1\nv2 #"]
)
def test_a_domain_is_asked_about_whatever_its_name_is(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path, name: str
) -> None:
    install(host)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        slice_ = unit(lend(service))
        mdev.remove(host, slice_)
        xml = f'<domain><devices><hostdev><source><address uuid="{slice_}"/></source></hostdev></devices></domain>'
        made = tmp_path / "made"
        assert run(host, installed.LIBVIRT, name.format(made), "prepare", "begin", "-", xml=xml) == ""
        assert [one.uuid for one in mdev.devices(host)] == [slice_]
        assert not made.exists()


def test_a_container_is_asked_about_at_its_start_and_its_book_has_the_numbers_of_now(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    install(host)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        lease = lend(service, "card", "lxc:c1")
        place = Path(host.path, lxc.book("c1", lease.uuid))
        [hook] = [line for line in place.read_text().split("\n") if line.startswith("lxc.hook.pre-start = ")]
        assert f"starting c1 {lease.uuid} " in hook
        assert "195:1" in hook
        before = lxc.parse_entries(place.read_text())
        devices = Path(host.path, "proc/devices")
        text = devices.read_text().replace("195 nvidia", "240 nvidia")
        devices.unlink()
        devices.write_text(text)
        words = hook.partition(" = ")[2].split()
        assert run(host, installed.LXC, *words[1:], "c1", "lxc", "pre-start") == ""
        after = {one.path: one.major for one in lxc.parse_entries(place.read_text())}
        assert {one.path: one.major for one in before} != after
        assert after["/dev/nvidia1"] == 240
        said = [line for line in place.read_text().split("\n") if line.startswith("lxc.hook.pre-start = ")]
        assert "240:1" in said[0]
        assert "195" not in place.read_text()


def test_a_hook_that_names_no_lease_leaves_nothing_that_would_keep_the_container_its_card(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    """Written into the configuration by hand: what it left looked like another lease of the same container's."""
    install(host)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        book = Path(host.path, lxc.book("c1", lend(service, "card", "lxc:c1").uuid))
        before = book.read_text()
        book.write_text("of before\n")
        assert run(host, installed.LXC, "starting", "c1", "", "", "c1", "lxc", "pre-start") == ""
        assert book.read_text() == before
        assert [one.name for one in book.parent.iterdir()] == [book.name]


def test_what_cannot_be_made_ready_is_said_and_the_guest_starts(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    install(host)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        slice_ = unit(lend(service))
        mdev.remove(host, slice_)
        host.fail(errno.ENOSPC, "/create")
        said = starts(host, "v1", f'<address uuid="{slice_}"/>')
        assert f"libvirt:v1 starts, and {slice_} on {T4} is not ready: " in said


def test_who_asks_what_a_guest_has_is_told_and_nothing_is_done(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        lease = lend(service, "card", "lxc:c1")
        slice_ = unit(lend(service))
        told = ask(host, question(event="leases", kind="lxc", name="c1"))
        assert [(one["lease"], one["ready"]) for one in told["units"]] == [(lease.uuid, True)]
        mdev.remove(host, slice_)
        told = ask(host, question(event="leases", units=[slice_]))
        assert [(one["uuid"], one["ready"], one["code"]) for one in told["units"]] == [
            (slice_, False, "unit-not-ready")
        ]
        assert mdev.devices(host) == []
        assert ask(host, question(event="leases", name="stranger"))["units"] == []


def test_a_function_in_a_domains_configuration_is_known_by_its_address(
    service: Service, host: simulate.SimulatedRoot, tmp_path: Path
) -> None:
    install(host)
    with running(service, host, tmp_path / "agent", local_socket=SOCKET):
        lease = lend(service, "card")
        card = lease.arqs[0].attach_handle_info
        parts = f'domain="0x{card["domain"]}" bus="0x{card["bus"]}" slot="0x{card["device"]}" function="0x{card["function"]}"'
        address = f"{card['domain']}:{card['bus']}:{card['device']}.{card['function']}"
        assert ask(host, question(event="leases", units=[address]))["units"][0]["ready"] is True
        assert starts(host, "v1", f"<address {parts}/>") == ""


def test_removing_the_hooks_leaves_no_container_that_names_them(host: simulate.SimulatedRoot, tmp_path: Path) -> None:
    install(host)
    place = lxc.book("c1", "x")
    host.replace(place, "\n".join(["# by Cantle", *installed.lines(host, "c1", "x", ["195:1"]), ""]).encode())
    lxc.without_hooks(host)
    assert installed.remove(host) == [installed.LXC, installed.LIBVIRT, installed.ASK]
    assert host.read_bytes(place) == b"# by Cantle\n"
    assert installed.remove(host) == []
