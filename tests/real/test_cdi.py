"""What we write for container engines, read by one."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real.lxc import MACHINE, Card
from tests.real.podman import Podman

from cantle.attach import cdi


@pytest.fixture
def card() -> Iterator[Card]:
    """A stand-in for a card."""
    made = Card("/dev/fuse")
    yield made
    made.remove()


@pytest.fixture
def lease() -> Iterator[str]:
    """A lease's uuid; its file is gone after the test."""
    made = str(uuid.uuid4())
    yield made
    cdi.remove(MACHINE, made)


@pytest.fixture
def podman() -> Iterator[Podman]:
    """An engine. It takes no long path."""
    with tempfile.TemporaryDirectory(prefix="cantle-") as directory:
        yield Podman(Path(directory))


@pytest.mark.parametrize("prefix", ["train-", "0-"], ids=["version 0.3.0", "version 0.5.0"])
def test_podman_gives_a_lease_to_whom_it_is_named_for_and_to_nobody_when_it_is_over(
    podman: Podman, card: Card, lease: str, prefix: str
) -> None:
    name = f"{prefix}{uuid.uuid4().hex[:8]}"
    script = f"[ -c {card.node.path} ] && (exec 3<>{card.node.path}) && echo opened"
    cdi.write(MACHINE, lease, name, [card.node])
    with_it = podman.run(script, f"{cdi.LEASE_KIND}={name}")
    assert (with_it.returncode, with_it.stdout) == (0, "opened\n"), with_it.stderr
    without = podman.run(script)
    assert (without.returncode, without.stdout) == (1, ""), without.stderr
    cdi.remove(MACHINE, lease)
    over = podman.run(script, f"{cdi.LEASE_KIND}={name}")
    assert over.returncode != 0
    assert "unresolvable CDI devices" in over.stderr
