"""What the boot runs: the order of its units, restoring without a server, the agent by itself, and the check of a configuration."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.databases import database
from tests.unit.agent.service import M40, T4, TOKEN, Service, running, until
from tests.unit.agent.test_end_to_end import handle, kernel_files
from tests.unit.cli.serving import CANTLE, CONFIG, PATIENCE, cantle, clean
from tests.unit.house.checkout import CHECKOUT

from cantle import simulate
from cantle.engine.device import list_devices
from cantle.engine.intent import set_intent
from cantle.kernel import mdev
from cantle.model.device import Mode
from cantle.model.identity import LOCAL_ADMIN
from cantle.model.intent import Intent

UNITS = CHECKOUT / "docs" / "deploy" / "systemd"


def directives(unit: str) -> dict[str, list[str]]:
    """The words of each directive of a unit; one that is written several times adds up, as for systemd."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in (UNITS / unit).read_text(encoding="utf-8").splitlines():
        key, is_directive, words = line.partition("=")
        if is_directive and not line.startswith("#"):
            found[key] += words.split()
    return found


def test_cards_are_restored_after_the_vendors_services_and_before_whatever_starts_guests() -> None:
    unit = directives("cantle-restore.service")
    assert {"nvidia-vgpud.service", "nvidia-vgpu-mgr.service"} <= set(unit["After"])
    assert {
        "libvirtd.service",
        "virtqemud.service",
        "nova-compute.service",
        "openstack-nova-compute.service",
        "lxc.service",
        "incus.service",
        "cantle.service",
        "cantle-agent.service",
    } <= set(unit["Before"])
    assert not set(unit["After"]) & set(unit["Before"])
    assert unit["Type"] == ["oneshot"]
    assert "network-online.target" not in unit["After"] + unit["Wants"] + unit["Requires"]
    assert unit["ExecStart"][:3] == ["/usr/bin/cantle", "agent", "restore"]


def test_the_agent_starts_after_the_restoring_and_does_not_depend_on_its_success() -> None:
    unit = directives("cantle-agent.service")
    assert "cantle-restore.service" in unit["After"]
    assert "cantle-restore.service" in unit["Wants"]
    assert "cantle-restore.service" not in unit["Requires"]


@pytest.mark.parametrize("name", ["cantle-restore.service", "cantle-agent.service"])
def test_the_commands_of_the_units_exist(name: str) -> None:
    words = [word for word in directives(name)["ExecStart"][1:] if not word.startswith("$")]
    command = words[: next((place for place, word in enumerate(words) if word.startswith("-")), len(words))]
    done = cantle(*command, "--help")
    assert done.code == 0
    assert all(word in done.out for word in words if word.startswith("--"))


def test_systemd_takes_the_units_where_it_is_at_hand(tmp_path: Path) -> None:
    units = [tmp_path / name for name in ("cantle-restore.service", "cantle-agent.service")]
    for unit in units:
        text = (UNITS / unit.name).read_text(encoding="utf-8")
        assert text.count("ExecStart=/usr/bin/cantle ") == 1
        unit.write_text(text.replace("/usr/bin/cantle", "/bin/true"))
    tool = shutil.which("systemd-analyze")
    if tool is not None:
        command = [tool, "verify", "--man=no", *map(str, units)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        assert (done.returncode, [line for line in done.stderr.splitlines() if "cantle" in line]) == (0, [])


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with database("sqlite", tmp_path) as db:
        server = Service(db)
        server.profiles()
        yield server
        db.wakeups.stop()
        server.down()


class Host:
    """A simulated T4 host as ``cantle agent --simulate t4`` finds it below a state directory."""

    def __init__(self, place: Path) -> None:
        self.state = place / "state"
        self.root = simulate.build(simulate.load("t4"), self.state / "simulated" / "t4")
        self.memory = self.state / "agents" / "t4"
        self.config = place / "cantle.conf"
        self.config.write_text(CONFIG, encoding="utf-8")

    @property
    def options(self) -> list[str]:
        return ["--state-dir", str(self.state), "--config-file", str(self.config)]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_restoring_needs_no_server_and_brings_back_intents_and_what_is_lent(service: Service, host: Host) -> None:
    with running(service, host.root, host.memory):
        until(lambda: service.free() == {T4: 8, M40: 1})
        set_intent(service.db, LOCAL_ADMIN, "node1", Intent(M40, Mode.PASSTHROUGH))
        until(lambda: all(one.intent.applied == one.intent.version for one in list_devices(service.db)))
        lent = {handle(service.borrow("slice")), handle(service.borrow("slice"))}
        before = kernel_files(host.root)
    service.down()
    simulate.reboot(host.root)
    done = cantle("agent", "restore", "--simulate", "t4", "--wait", "0", *host.options)
    assert (done.code, done.out) == (0, "t4: 1 intents, 2 lent units, 0 failures\n"), done.err
    assert kernel_files(host.root) == before
    assert {one.uuid for one in mdev.devices(host.root)} == lent
    again = cantle("agent", "restore", "--simulate", "t4", *host.options)
    assert again.code == 0
    assert kernel_files(host.root) == before


def test_restoring_says_what_it_could_not_and_does_the_rest(service: Service, host: Host) -> None:
    with running(service, host.root, host.memory):
        until(lambda: service.free() == {T4: 8, M40: 1})
        lent = handle(service.borrow("slice"))
        set_intent(service.db, LOCAL_ADMIN, "node1", Intent(M40, Mode.PASSTHROUGH))
        until(lambda: all(one.intent.applied == one.intent.version for one in list_devices(service.db)))
    simulate.reboot(host.root)
    mdev.create(host.root, T4, "nvidia-222", "99999999-2222-4333-8444-555555555555")
    done = cantle("agent", "restore", "--simulate", "t4", "--wait", "1", *host.options)
    assert done.code == 1
    assert "restore-incomplete" in done.err
    assert lent in done.err
    assert host.root.link_name(f"sys/bus/pci/devices/{M40}/driver") == "vfio-pci"


def test_a_host_without_a_memory_has_nothing_to_restore(host: Host) -> None:
    done = cantle("agent", "restore", "--simulate", "t4", *host.options)
    assert (done.code, done.out) == (0, "t4: 0 intents, 0 lent units, 0 failures\n")


def test_an_agent_by_itself_speaks_for_its_host_and_lends_from_it(service: Service, host: Host, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text(f"{TOKEN}\n", encoding="utf-8")
    command = [*CANTLE, "agent", "run", "--server", service.url, "--token-file", str(secret), "--simulate", "t4"]
    with subprocess.Popen([*command, *host.options], env=clean({}), stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: service.free() == {T4: 8, M40: 1}, PATIENCE)
            lease = service.borrow("slice")
            assert [one.uuid for one in mdev.devices(host.root)] == [handle(lease)]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0


def test_a_configuration_that_would_take_away_what_is_lent_is_told_beforehand(service: Service, host: Host) -> None:
    free = cantle("config", "check", *host.options)
    assert (free.code, free.out) == (0, "The configuration can be used. Enabled types: nvidia-223.\n")
    with running(service, host.root, host.memory):
        lent = handle(service.borrow("slice"))
    assert cantle("config", "check", *host.options).code == 0
    for text, words in (
        (CONFIG.replace("223", "222"), "nvidia-222 is enabled for it"),
        ("", "no type is enabled for it any more"),
        (CONFIG + "mdev_class = gold\n", "as VGPU, and CUSTOM_GOLD is configured"),
    ):
        host.config.write_text(text, encoding="utf-8")
        done = cantle("config", "check", *host.options)
        assert done.code == 78
        assert f"nvidia-223 of {T4} is lent ({lent})" in done.err
        assert words in done.err
        assert "[config-refused]" in done.err
        started = cantle("agent", "run", "--server", service.url, "--strict", "--simulate", "t4", *host.options)
        assert started.code == 78
        served = cantle("serve", "--listen", "127.0.0.1:0", "--simulate", "t4", "--strict", *host.options)
        assert (served.code, "[config-refused]" in served.err) == (78, True)


def test_a_configuration_with_a_mistake_cannot_be_used(host: Host) -> None:
    host.config.write_text("[gpu_devices]\nenabled_vgpu_types = nvidia-223\n", encoding="utf-8")
    done = cantle("config", "check", *host.options)
    assert done.code == 78
    assert "[config-type-without-section]" in done.err
