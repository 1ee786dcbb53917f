"""``cantle scan`` as typed: output, exit codes, complaints, and that it changes nothing and loads little."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from tests.unit.kernel.tree import Tree
from tests.unit.scan import hosts

from cantle.cli.exit_codes import ExitCode
from cantle.cli.main import run
from cantle.cli.scan import COLUMNS, fitting

GOLDEN = Path(__file__).parent / "golden"

FIELDS = [
    "address",
    "vendor_id",
    "device_id",
    "name",
    "class_id",
    "driver",
    "iommu_group",
    "numa_node",
    "sriov_total",
    "sriov_enabled",
    "capabilities",
    "mode",
    "lendable",
    "reason",
]

T4_LINE = "0000:af:00.0 3D controller [0302]: NVIDIA Corporation TU104GL [Tesla T4] [10de:1eb8] (rev a1)\n"


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """What standard input gives."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))


# --- output ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fmt", ["table", "wide", "json", "yaml", "value"])
def test_the_output_of_a_machine_with_every_kind_of_card_stays_as_it_is(
    tree: Tree, capsys: pytest.CaptureFixture[str], fmt: str
) -> None:
    hosts.everything(tree)
    assert run(["scan", "--root", str(tree.base), "-o", fmt]) == ExitCode.OK
    output = capsys.readouterr()
    assert output.err == ""
    assert output.out == (GOLDEN / f"everything.{fmt}").read_text()


def test_json_has_exactly_the_promised_fields_in_order(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    hosts.everything(tree)
    run(["scan", "--root", str(tree.base), "--all", "-o", "json"])
    rows = json.loads(capsys.readouterr().out)
    assert all(list(row) == FIELDS for row in rows)
    t4 = next(row for row in rows if row["address"] == "0000:af:00.0")
    assert t4 == {
        "address": "0000:af:00.0",
        "vendor_id": "10de",
        "device_id": "1eb8",
        "name": "NVIDIA Corporation TU104GL [Tesla T4]",
        "class_id": "0302",
        "driver": "nvidia",
        "iommu_group": 40,
        "numa_node": 1,
        "sriov_total": None,
        "sriov_enabled": None,
        "capabilities": ["passthrough", "mdev"],
        "mode": "passthrough",
        "lendable": True,
        "reason": "can be lent whole, or cut into mediated devices; driver nvidia lets go of it first",
    }


def test_ids_that_look_like_numbers_are_texts_in_yaml(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    tree.function("0000:01:00.0", "1e36:0001", "120000", group=2)
    run(["scan", "--root", str(tree.base), "-o", "yaml"])
    output = capsys.readouterr().out
    assert "vendor_id: '1e36'\n" in output
    assert "device_id: '0001'\n" in output


def test_columns_can_be_chosen_from_cells_and_fields(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    hosts.t4(tree)
    run(
        [
            "scan",
            "--root",
            str(tree.base),
            "-o",
            "value",
            "-c",
            "address",
            "-c",
            "id",
            "-c",
            "class_id",
            "-c",
            "lendable",
        ]
    )
    assert capsys.readouterr().out == "0000:03:00.0\t1a03:2000\t0300\tfalse\n0000:af:00.0\t10de:1eb8\t0302\ttrue\n"


def test_an_unknown_column_is_an_error_of_use(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    hosts.t4(tree)
    assert run(["scan", "--root", str(tree.base), "-c", "colour"]) == ExitCode.USAGE
    assert "There is no column 'colour'" in capsys.readouterr().err


def test_a_machine_without_accelerators_says_so_and_is_no_error(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scan", "--root", str(tree.base)]) == ExitCode.OK
    assert "No accelerator. (cantle scan --all shows every PCI function.)" in capsys.readouterr().err
    assert run(["scan", "--root", str(tree.base), "-o", "json"]) == ExitCode.OK
    assert capsys.readouterr().out == "[]\n"


def test_a_name_cannot_repaint_the_terminal(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    hosts.t4(tree)
    tree.file("usr/share/misc/pci.ids", "10de  Evil\x1b[2JCorp\n")
    run(["scan", "--root", str(tree.base)])
    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert "Evil\\x1b[2JCorp Device 1eb8" in output


def test_a_window_decides_which_columns_there_is_room_for() -> None:
    row: dict[str, object] = dict.fromkeys(COLUMNS, "0000:af:00.0")
    row.update(name="N" * 60, verdict="V" * 90, capabilities="passthrough, mdev, sriov")
    assert fitting([row], 250) == COLUMNS
    assert fitting([row], 80) == ["address", "name", "mode", "verdict"]
    assert fitting([row], 10) == ["address", "name", "mode", "verdict"]
    assert fitting([], 100) == COLUMNS
    sizes = [len(fitting([row], width)) for width in range(60, 260)]
    assert sizes == sorted(sizes)


def test_a_narrow_window_gets_fewer_columns_and_is_told_so(tree: Tree) -> None:
    hosts.t4(tree)
    hosts.with_ids(tree)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    command = [sys.executable, "-m", "cantle.cli.main", "scan", "--root", str(tree.base)]
    outcome = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, env=environment, check=True)
    os.close(theirs)
    shown = os.read(ours, 1 << 16).decode().replace("\r\n", "\n").splitlines()
    os.close(ours)
    assert shown[0].split() == ["ADDRESS", "NAME", "MODE", "VERDICT"]
    assert all(len(line) <= 80 for line in shown)
    assert shown[1].startswith("0000:03:00.0  ASPEED Technology, Inc.")
    assert (
        b"(Left out in this narrow window: id, class, driver, iommu, numa, sriov, capabilities. -o wide"
        in outcome.stderr
    )


# --- exit codes and complaints --------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_told_beside_the_rows(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    hosts.t4(tree)
    tree.attribute("0000:af:00.0", "numa_node", "?\n")
    assert run(["scan", "--root", str(tree.base), "-o", "value", "-c", "address"]) == ExitCode.FAILED
    output = capsys.readouterr()
    assert output.out == "0000:03:00.0\n0000:af:00.0\n"
    assert output.err == (
        "cantle: warning: 0000:af:00.0: /sys/bus/pci/devices/0000:af:00.0/numa_node holds no number [host-read-failed]\n"
    )


def test_a_root_that_is_none_is_an_error_of_use(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    for place, words in (
        ("nowhere", "is not a directory"),
        ("proc", "holds no sys/ directory"),
        ("sys", "name the directory above"),
    ):
        assert run(["scan", "--root", str(tree.base / place)]) == ExitCode.USAGE
        output = capsys.readouterr()
        assert words in output.err
        assert "[bad-root]" in output.err
        assert output.out == ""


def test_an_empty_root_is_an_error_of_use_and_not_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    """As of a variable that is not set: ``--root "$TREE"``."""
    assert run(["scan", "--root", ""]) == ExitCode.USAGE
    assert "--root is empty" in capsys.readouterr().err


def test_a_count_of_virtual_functions_that_cannot_be_read_is_a_question_mark(
    tree: Tree, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts.a2(tree)
    tree.attribute("0000:08:00.0", "sriov_numvfs", "?\n")
    assert run(["scan", "--root", str(tree.base), "-o", "value", "-c", "address", "-c", "sriov"]) == ExitCode.FAILED
    assert "0000:08:00.0\t? of 16\n" in capsys.readouterr().out


def test_root_and_lspci_exclude_each_other(tree: Tree, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scan", "--root", str(tree.base), "--lspci", "/dev/null"]) == ExitCode.USAGE
    assert "exclude each other" in capsys.readouterr().err


def test_a_dump_can_be_a_file_or_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dump").write_text(T4_LINE)
    feed(monkeypatch, T4_LINE.encode())
    for place in (str(tmp_path / "dump"), "-"):
        assert run(["scan", "--lspci", place, "-o", "json"]) == ExitCode.OK
        (row,) = json.loads(capsys.readouterr().out)
        assert list(row) == FIELDS
        assert (row["name"], row["mode"], row["lendable"]) == ("NVIDIA Corporation TU104GL [Tesla T4]", None, None)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_dump_may_have_come_through_another_systems_editor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    feed(monkeypatch, T4_LINE.replace("\n", "\r\n").encode(encoding))
    assert run(["scan", "--lspci", "-", "-o", "value", "-c", "address"]) == ExitCode.OK
    assert capsys.readouterr().out == "0000:af:00.0\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "line 1: there is no PCI function in this dump"),
        (T4_LINE.encode() + b"\xff\xff\n", "line 2: "),
        (T4_LINE.encode()[:40], "line 1: "),
        (os.urandom(16) * 64, "line "),
        (b"\n" * (16 << 20) + b"x", "more than 16 MiB"),
    ],
    ids=["empty", "garbage after", "cut off", "noise", "huge"],
)
def test_a_dump_that_is_none_is_an_error_of_use_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, data: bytes, words: str
) -> None:
    feed(monkeypatch, data)
    assert run(["scan", "--lspci", "-"]) == ExitCode.USAGE
    output = capsys.readouterr()
    assert output.out == ""
    assert words in output.err
    assert "[bad-lspci-dump]" in output.err
    assert "Traceback" not in output.err


def test_a_dump_that_is_not_there_is_an_error_of_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scan", "--lspci", str(tmp_path / "nowhere")]) == ExitCode.USAGE
    assert "nowhere" in capsys.readouterr().err


# --- harmless -------------------------------------------------------------------------------------------------------

WATCH = """
import os, sys
def hook(event, args):
    if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
        print("opened for writing:", args[0], file=sys.stderr)
    elif event.split(".")[0] in ("subprocess", "socket", "shutil") or event in ("os.system", "os.mkdir", "os.remove", "os.rename"):
        print("did:", event, args, file=sys.stderr)
sys.addaudithook(hook)
from cantle.cli.main import run
code = run(sys.argv[1:])
print(*(name for name in ("sqlalchemy", "falcon", "oslo_config", "msgspec", "rich", "yaml", "http.client") if name in sys.modules),
      file=sys.stderr, end="")
sys.exit(code)
"""


def watched(*args: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own that tells every write, and the heavy modules loaded, on standard error."""
    return subprocess.run(
        [sys.executable, "-B", "-c", WATCH, "scan", *args], capture_output=True, text=True, check=False
    )


def test_a_scan_writes_nothing_starts_nothing_and_loads_no_heavy_module(tree: Tree) -> None:
    hosts.everything(tree)
    outcome = watched("--root", str(tree.base), "-o", "json")
    assert (outcome.returncode, outcome.stderr) == (ExitCode.OK, "")
    assert (
        len(json.loads(outcome.stdout)) == 29
    )  # 2 MI300X, A2 + 16, L40S + 2, Flex + 2, and a T4, an FPGA, a BMC and mtty


def test_the_machine_this_runs_on_can_be_scanned() -> None:
    outcome = watched("--all", "-o", "json")
    assert outcome.returncode == ExitCode.OK, outcome.stderr
    assert outcome.stderr == ""
    place = Path("/sys/bus/pci/devices")
    functions = sorted(os.listdir(place)) if place.is_dir() else []
    rows = json.loads(outcome.stdout)
    assert sorted(row["address"] for row in rows if row["vendor_id"] is not None) == functions
    for row in rows:
        if row["vendor_id"] is not None:
            files = place / row["address"]
            assert (files / "vendor").read_text() == f"0x{row['vendor_id']}\n"
            assert (files / "device").read_text() == f"0x{row['device_id']}\n"
            assert (files / "class").read_text()[:6] == f"0x{row['class_id']}"
            driver = files / "driver"
            assert row["driver"] == (os.path.basename(os.readlink(driver)) if driver.is_symlink() else None)
