"""Starts of ``cantle serve`` that are refused: each clearly, and nothing half-done is left."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cli.serving import CANTLE, PATIENCE, Done, cantle, clean, refused, serve_command

from cantle.cli.exit_codes import ExitCode


@pytest.mark.parametrize(
    ("config", "code", "words"),
    [
        ("enabled_vgpu_types = nvidia-223\n", "config-file-malformed", ["other.conf"]),
        (
            "[gpu_devices]\nenabled_vgpu_types = nvidia-223\n",
            "config-type-without-section",
            ["[gpu_devices]", "nvidia-223"],
        ),
        (
            "[gpu_devices]\nenabled_vgpu_types = nvidia-223\n[vgpu_nvidia-223]\ndevice_addresses = zz\n",
            "config-address-malformed",
            ["'zz'", "zz"],
        ),
        ("[api]\nauth = magic\n", "bad-option", ["[api] auth", "magic"]),
    ],
)
def test_a_malformed_configuration_is_named_and_nothing_is_made(
    tmp_path: Path, config: str, code: str, words: list[str]
) -> None:
    other = tmp_path / "other.conf"
    other.write_text(config)
    done = refused(tmp_path, "--config-file", str(other)) if "[gpu" not in config else refused_with(tmp_path, config)
    assert done.code == ExitCode.CONFIG
    assert f"[{code}]" in done.err
    assert any(word in done.err for word in words)
    assert not (tmp_path / "state").exists()


def refused_with(place: Path, config: str) -> Done:
    """How a start ends with this as the only configuration."""
    command = serve_command(place)
    (place / "cantle.conf").write_text(config)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=clean({}))
    return Done(done.returncode, done.stdout, done.stderr)


def test_a_configuration_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = refused(tmp_path, "--config-file", str(tmp_path / "nowhere.conf"))
    assert done.code == ExitCode.CONFIG
    assert "nowhere.conf" in done.err
    assert "[config-file-missing]" in done.err


def test_an_unknown_simulated_host_is_answered_with_the_known_ones(tmp_path: Path) -> None:
    done = refused(tmp_path, "--simulate", "t44")
    assert done.code == ExitCode.USAGE
    assert "t4" in done.err
    assert "[simulation-unknown]" in done.err


def test_the_same_host_twice_is_refused(tmp_path: Path) -> None:
    done = refused(tmp_path, "--simulate", "t4")
    assert (done.code, "[host-twice]" in done.err) == (ExitCode.CONFIG, True)


def test_no_host_at_all_is_refused(tmp_path: Path) -> None:
    done = cantle("serve", "--simulated-only", "--state-dir", str(tmp_path / "state"), "--listen", "127.0.0.1:0")
    assert (done.code, "[no-host]" in done.err) == (ExitCode.CONFIG, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
def test_an_address_that_others_can_reach_is_refused_without_authentication(tmp_path: Path, address: str) -> None:
    done = refused(tmp_path, "--listen", address)
    assert done.code == ExitCode.CONFIG
    assert "[open-to-all]" in done.err
    assert not (tmp_path / "state").exists()


def test_a_port_in_use_is_named_and_nothing_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        done = refused(tmp_path, "--listen", place)
    assert done.code == ExitCode.CONFLICT
    assert f"Something listens on {place} already" in done.err
    assert "[port-in-use]" in done.err
    assert not (tmp_path / "state").exists()


def test_a_state_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    done = refused(tmp_path, "--state-dir", "/sys/kernel/cantle-test")
    assert done.code == ExitCode.FAILED
    assert "[state-dir-unusable]" in done.err


def test_a_full_disk_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: the kernel refuses the same writes."""
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)); "
        "from cantle.cli.main import main; main(sys.argv[1:])"
    )
    command = [sys.executable, "-c", script, *serve_command(tmp_path)[len(CANTLE) :]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, env=clean({}))
    assert done.returncode == ExitCode.FAILED
    assert "[state-dir-full]" in done.stderr
    assert not (tmp_path / "state").exists()


def test_a_state_directory_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "cantle.db").write_text("this is no database, and longer than nothing" * 100)
    done = refused(tmp_path)
    assert done.code == ExitCode.UNAVAILABLE
    assert "[database-corrupt]" in done.err


def test_a_slip_of_the_pen_in_any_section_is_told_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "cantle.db").write_text("this is no database, so that it ends at once" * 100)
    file = tmp_path / "other.conf"
    file.write_text("[webhook]\nrul = https://hooks.example\n")
    done = refused(tmp_path, "--config-file", str(file))
    assert "[webhook] rul is no option of Cantle and has no effect; did you mean url?" in done.err
