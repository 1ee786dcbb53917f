"""Guests that are started with their lease, on a tree with libvirt's and liblxc's files and tools that start what they are told to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from cantle.attach import start
from cantle.attach.domains import RUNNING
from cantle.errors import HostError
from cantle.kernel.root import Root
from cantle.kernel.tools import Ran
from cantle.model.attachment import Attachment

V1, C1 = Attachment.parse("libvirt:v1"), Attachment.parse("lxc:c1")
DOMAIN, PID = f"{RUNNING}/v1.xml", "run/c1.pid"


class Guests(Root):
    """A domain and a container that do not run. ``refuses``: the tools fail; ``lies``: they say they have done it, and have not."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked: list[str] = []
        self.words = ""
        self.refuses = ""
        self.lies = False

    @property
    def is_machine(self) -> bool:
        return True

    def run(self, argv: Sequence[str], seconds: float) -> Ran:  # noqa: ARG002 - nothing here takes time
        """``lxc-info``, ``virsh start`` and ``lxc-start``."""
        if argv[0] == "lxc-info":
            return Ran(0, self.read_or_none(PID) or "-1")
        self.asked.append(argv[0])
        self.words = " ".join(argv)
        if self.refuses:
            return Ran(1, self.refuses)
        if not self.lies and argv[0] == "virsh":
            self.replace(DOMAIN, b"<domstatus><domain><name>v1</name><devices/></domain></domstatus>")
        elif not self.lies:
            self.replace(PID, b"4711\n")
        return Ran(0, "")


@pytest.fixture
def host(tmp_path: Path) -> Guests:
    return Guests(tmp_path)


BOTH = pytest.mark.parametrize(
    ("guest", "tool", "code"), [(V1, "virsh", "libvirt-refused"), (C1, "lxc-start", "container-refused")]
)


@BOTH
def test_a_guest_that_does_not_run_is_started_and_one_that_runs_is_left_alone(
    host: Guests, guest: Attachment, tool: str, code: str
) -> None:
    assert start.start(host, guest) == f"{guest} was started"
    assert start.start(host, guest) is None
    assert host.asked == [tool]
    assert code


@BOTH
@pytest.mark.parametrize("refuses", ["error: Requested operation is not valid: network 'default' is not active", ""])
def test_a_guest_that_does_not_start_is_told_in_its_manager_s_words(
    host: Guests, guest: Attachment, tool: str, code: str, refuses: str
) -> None:
    host.refuses, host.lies = refuses, True
    with pytest.raises(HostError, match="could not be started") as caught:
        start.start(host, guest)
    assert caught.value.code == code
    assert refuses in caught.value.message
    assert host.asked == [tool]


def test_a_container_is_not_started_within_the_sandbox_of_the_agents_unit(host: Guests) -> None:
    (Path(host.path) / "run/systemd/system").mkdir(parents=True)
    assert start.start(host, C1) is not None
    assert host.words.startswith("systemd-run ")
    assert host.words.endswith(" -- lxc-start -n c1 --daemon")
