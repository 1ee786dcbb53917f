"""What is left in a stopped container's files where a device node was."""

from __future__ import annotations

from pathlib import Path

import pytest

from cantle.kernel import rootfs
from cantle.kernel.root import Root


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """The container's directory."""
    made = tmp_path / "var/lib/lxc/c1/rootfs"
    (made / "dev/dri").mkdir(parents=True)
    return made


def sweep(place: Path, path: str) -> None:
    rootfs.sweep(Root(place), "/var/lib/lxc/c1/rootfs", path)


def test_the_empty_file_that_a_mount_stood_on_goes(tmp_path: Path, inside: Path) -> None:
    (inside / "dev/dri/renderD128").touch()
    sweep(tmp_path, "/dev/dri/renderD128")
    assert list((inside / "dev/dri").iterdir()) == []


def test_what_somebody_keeps_there_stays(tmp_path: Path, inside: Path) -> None:
    (inside / "dev/nvidia0").write_text("mine\n")
    (inside / "dev/nvidia1").mkdir()
    sweep(tmp_path, "/dev/nvidia0")
    sweep(tmp_path, "/dev/nvidia1")
    sweep(tmp_path, "/dev/nothing/there")
    assert (inside / "dev/nvidia0").read_text() == "mine\n"
    assert (inside / "dev/nvidia1").is_dir()


def test_a_link_leads_nobody_out_of_the_container(tmp_path: Path, inside: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/renderD128").touch()
    (inside / "dev/dri").rmdir()
    (inside / "dev/dri").symlink_to(tmp_path / "outside")
    sweep(tmp_path, "/dev/dri/renderD128")
    assert (tmp_path / "outside/renderD128").exists()
    (inside / "dev/nvidia0").symlink_to(tmp_path / "outside/renderD128")
    sweep(tmp_path, "/dev/nvidia0")
    assert (tmp_path / "outside/renderD128").exists()
    assert (inside / "dev/nvidia0").is_symlink()


def test_a_container_that_has_the_hosts_own_files_costs_the_host_no_node(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia0").touch()
    rootfs.sweep(Root(tmp_path), "/", "/dev/nvidia0")
    assert (tmp_path / "dev/nvidia0").exists()


def test_a_directory_that_is_a_link_is_not_gone_through_to_files_of_the_host(tmp_path: Path, inside: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nvidia0").touch()
    (inside / "dev/dri").rmdir()
    (inside / "dev").rmdir()
    for target in ("/etc", "../../../../../etc", str(tmp_path / "etc")):
        (inside / "dev").symlink_to(target)
        sweep(tmp_path, "/dev/nvidia0")
        assert (tmp_path / "etc/nvidia0").exists()
        (inside / "dev").unlink()
