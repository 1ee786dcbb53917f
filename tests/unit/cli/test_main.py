"""How a command line is understood, and how every failure ends: one message, a stable exit code, no traceback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.unit.cli.commands import every_command, examples

from cantle import __version__, errors
from cantle.cli import exit_codes
from cantle.cli.exit_codes import ExitCode, TimedOut
from cantle.cli.main import ALIASES, COMMANDS, cantle, run

ROOM = Path(__file__).resolve().parents[3] / "src" / "cantle" / "cli"


def test_help_and_version_are_no_failures(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == ExitCode.OK
    assert "lease" in capsys.readouterr().out
    assert run(["--version"]) == ExitCode.OK
    assert capsys.readouterr().out == f"cantle {__version__}\n"


def test_no_command_at_all_shows_the_help_and_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == ExitCode.USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert "Commands:" in said.err


@pytest.mark.parametrize(
    ("typed", "meant"), [("devise", "device"), ("leese", "lease"), ("inventry", "inventory"), ("profilee", "profile")]
)
def test_a_mistyped_command_is_answered_with_the_one_probably_meant(
    capsys: pytest.CaptureFixture[str], typed: str, meant: str
) -> None:
    assert run([typed, "list"]) == ExitCode.USAGE
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


@pytest.mark.parametrize(("line", "meant"), [(["lease", "craete"], "create"), (["device", "lits"], "list")])
def test_a_mistyped_subcommand_too(capsys: pytest.CaptureFixture[str], line: list[str], meant: str) -> None:
    assert run(line) == ExitCode.USAGE
    assert f"Did you mean '{meant}'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        ["lease", "create"],
        ["device", "list", "--no-such"],
        ["device", "list", "-o", "xml"],
        ["lease", "create", "p", "--count", "0"],
        ["serve", "--state-dir", ""],
    ],
)
def test_a_wrong_command_line_says_so_and_how_to_get_help(capsys: pytest.CaptureFixture[str], line: list[str]) -> None:
    assert run(line) == ExitCode.USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert "--help" in said.err
    assert said.err.splitlines()[-1].startswith("cantle: error: ")
    assert said.err.endswith("[usage-error]\n")


def test_a_server_that_is_away_is_named_with_its_address_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert run(["--url", f"http://127.0.0.1:{port}", "device", "list"]) == ExitCode.UNAVAILABLE
    said = capsys.readouterr().err
    assert said == (
        f"cantle: error: No Cantle server answers at http://127.0.0.1:{port} (Connection refused). Start one with 'cantle serve', "
        "or name another with --url or CANTLE_URL. [server-unavailable]\n"
    )


@pytest.mark.parametrize("url", ["127.0.0.1:6666", "ftp://host", "http://", "http://host:port", "http://[::1"])
def test_what_is_no_address_of_a_server_is_refused(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert run(["--url", url, "device", "list"]) == ExitCode.USAGE
    assert "[bad-url]" in capsys.readouterr().err


def test_the_leaves_of_the_error_tree_have_the_documented_exit_codes() -> None:
    assert {kind.__name__: exit_codes.of(kind("some-code", "words")).name for kind in leaves()} == {
        "CantleError": "FAILED",
        "BadRequest": "USAGE",
        "BadConfig": "CONFIG",
        "Unauthorized": "FORBIDDEN",
        "Forbidden": "FORBIDDEN",
        "NotFound": "NOT_FOUND",
        "MethodNotAllowed": "FAILED",
        "NotAcceptable": "USAGE",
        "Conflict": "CONFLICT",
        "NoCapacity": "CONFLICT",
        "PreconditionFailed": "CONFLICT",
        "PreconditionRequired": "CONFLICT",
        "TooLarge": "FAILED",
        "UnsupportedMedia": "FAILED",
        "Unprocessable": "USAGE",
        "Locked": "CONFLICT",
        "Unavailable": "UNAVAILABLE",
        "HostError": "FAILED",
        "TimedOut": "TIMED_OUT",
    }


def leaves() -> list[type[errors.CantleError]]:
    """Every class of the error tree."""
    here = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.CantleError)]
    return [*here, TimedOut]


def test_the_exit_codes_are_the_documented_ones() -> None:
    page = (ROOM.parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    table = page.partition("## Exit codes")[2].partition("##")[0]
    documented = {
        int(line.split("|")[1])
        for line in table.splitlines()
        if line.startswith("|") and line.split("|")[1].strip().isdigit()
    }
    assert documented == {int(code) for code in ExitCode}


def test_control_characters_of_an_error_message_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain-error", "\x1b[31mx"]) == ExitCode.NOT_FOUND
    assert "\x1b" not in capsys.readouterr().err


def test_a_fault_of_ours_is_one_line_and_a_traceback_only_when_asked_for() -> None:
    """A module that cannot be imported stands for any fault nobody foresaw."""
    script = (
        "import sys; sys.modules['cantle.cli.device'] = None; "  # import raises ModuleNotFoundError
        "from cantle.cli.main import main; main(['device', 'list'])"
    )
    plain = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert plain.returncode == ExitCode.INTERNAL
    assert "Traceback" not in plain.stderr
    assert plain.stderr.endswith("[internal-error]\n")
    debug = {**os.environ, "CANTLE_DEBUG": "1"}
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=debug)
    assert shown.returncode == ExitCode.INTERNAL
    assert "Traceback" in shown.stderr


@pytest.fixture
def ctrl_c_is_heard() -> Iterator[None]:
    """Also where these tests run in the background of a shell, which has SIGINT ignored, and a child inherits that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_waiting_command_quietly(ctrl_c_is_heard: None) -> None:
    """A server that never answers; the command gets SIGINT while it waits for it."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        command = [
            sys.executable,
            "-m",
            "cantle.cli.main",
            "--url",
            f"http://127.0.0.1:{silent.getsockname()[1]}",
            "host",
            "list",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            silent.settimeout(20)
            connection, _ = silent.accept()
            with connection:
                connection.settimeout(20)
                connection.recv(1024)  # it has asked, and now it waits
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=20)
    assert process.returncode == ExitCode.INTERRUPTED
    assert (out, err.strip()) == ("", "")


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    command = [sys.executable, "-m", "cantle.cli.main", "explain-error"]
    ours, theirs = os.pipe()
    os.close(ours)  # nobody will ever read
    done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, text=True, check=False)
    os.close(theirs)
    assert done.returncode == ExitCode.BROKEN_PIPE
    assert done.stderr == ""


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_whose_caller_closed_standard_streams_ends_as_ever(closed: str) -> None:
    """As cron jobs and daemons have it."""
    script = f'exec "$0" -m cantle.cli.main explain-error internal-error {closed}'
    done = subprocess.run(["/bin/sh", "-c", script, sys.executable], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (ExitCode.OK, "")


def test_output_into_a_full_disk_is_told_and_no_fault() -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "cantle.cli.main", "explain-error"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == ExitCode.FAILED
    assert done.stderr == (
        "cantle: error: The output cannot be written: No space left on device. "
        "Make room where it goes, or send it elsewhere. [output-failed]\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        ["lease", "show"],
        ["lease", "xml"],
        ["lease", "release"],
        ["arq", "show"],
        ["deployable", "show"],
        ["device", "show"],
        ["device", "disable"],
        ["profile", "show"],
        ["profile", "delete"],
    ],
)
def test_an_empty_name_is_refused_and_does_not_mean_all(capsys: pytest.CaptureFixture[str], line: list[str]) -> None:
    """As of a variable that is not set. Nothing is asked of a server: there is none."""
    assert run([*line, ""]) == ExitCode.USAGE
    assert "is empty" in capsys.readouterr().err


def profile_file(place: Path, text: str) -> int:
    """Create the profile in a file with this text, with nobody to create it."""
    file = place / "gold.yaml"
    file.write_text(text, encoding="utf-8")
    return run(["--url", "http://127.0.0.1:1", "profile", "create", "-f", str(file)])


def test_a_profile_may_have_a_date_for_a_name(tmp_path: Path) -> None:
    assert profile_file(tmp_path, 'name: 2026-12-24\ngroups: [{"resources:VGPU": 1}]\n') == ExitCode.UNAVAILABLE


@pytest.mark.parametrize(
    "groups",
    [
        "&a [*a]",
        "[" * 5000,
        "\n  a: &a [x,x,x,x,x,x,x,x]\n"
        + "".join(f"  {b}: &{b} [{f'*{a},' * 8}]\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)),
        "[" + "x," * 600_000 + "]",
    ],
    ids=["holds itself", "deep", "unfolds", "large"],
)
def test_a_file_that_would_never_end_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], groups: str
) -> None:
    assert profile_file(tmp_path, f"name: gold\ngroups: {groups}\n") == ExitCode.USAGE
    assert "[malformed-file]" in capsys.readouterr().err


def test_a_pipe_that_nobody_writes_to_is_not_waited_for_for_ever(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cantle.cli.profile.PIPE_S", 0.2)
    os.mkfifo(tmp_path / "gold.yaml")
    assert run(["profile", "create", "-f", str(tmp_path / "gold.yaml")]) == ExitCode.USAGE
    assert "Nothing came from the pipe" in capsys.readouterr().err


def test_a_profile_may_come_out_of_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As bash's ``-f <(generate)``."""
    pipe = tmp_path / "gold.yaml"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("name: gold",))
    writer.start()
    assert run(["profile", "create", "-f", str(pipe)]) == ExitCode.USAGE
    writer.join(20)
    assert "at least one group" in capsys.readouterr().err


def test_a_service_that_is_told_to_stop_while_it_loads_ends_well() -> None:
    """It ended with the signal (-15), as if it had crashed, in the second that its imports take."""
    code = (
        "import os, signal, sys\n"
        "from cantle.cli import main\n"
        "def told_to_stop(*_):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    signal.pause()\n"
        "main.importlib.import_module = told_to_stop\n"
        "main.main(['serve'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (ExitCode.OK, b"")


def test_output_with_letters_the_locale_lacks_is_no_failure() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    script = "import sys; from cantle.cli.main import main; sys.stdout.write('x'); main(['explain-error', 'ä'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, env=environment)
    assert done.returncode == ExitCode.NOT_FOUND
    assert b"[no-such-error-code]" in done.stderr


def test_every_command_can_be_found_by_its_name_and_says_what_the_list_says() -> None:
    context = click.Context(cantle)
    for name, _, about in COMMANDS:
        command = cantle.get_command(context, name)
        assert command is not None
        assert command.name == name
        words = (command.get_short_help_str(limit=200)).lower()
        assert about.split()[0].lower().rstrip("s:,") in words or words.split()[0] in about.lower(), name
    assert all(cantle.get_command(context, alias) for alias in ALIASES)


def test_every_command_that_does_something_has_examples_that_parse() -> None:
    for path, command in every_command():
        if isinstance(command, click.Group):
            continue
        lines = examples(command)
        assert lines, f"{path} has no examples in its help"
        for line in lines:
            assert line[: len(path.split())] == path.split() or line[0] == "inventory", (
                f"{path} shows an example of {line}"
            )
            parse(line)


def test_the_examples_of_the_first_help_page_parse() -> None:
    for line in examples(cantle):
        parse(line)


def parse(arguments: list[str]) -> None:
    """Parse a command line down to its last command, without running it. Raises click.UsageError when it is wrong."""
    context = cantle.make_context("cantle", list(arguments))
    command: click.Command = cantle
    while isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        context = found.make_context(name, rest, parent=context)
        command = found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_there_for_the_usual_shells(shell: str) -> None:
    environment = {**os.environ, "_CANTLE_COMPLETE": f"{shell}_source"}
    done = subprocess.run(
        [sys.executable, "-m", "cantle.cli.main"], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert "_CANTLE_COMPLETE" in done.stdout


def test_completion_knows_the_subcommands() -> None:
    environment = {
        **os.environ,
        "_CANTLE_COMPLETE": "bash_complete",
        "COMP_WORDS": "cantle lease rel",
        "COMP_CWORD": "2",
    }
    done = subprocess.run(
        [sys.executable, "-m", "cantle.cli.main"], capture_output=True, text=True, check=False, env=environment
    )
    assert done.stdout.split() == ["plain,release"]


def test_the_help_of_every_command_fits_eighty_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for path, _ in every_command():
        assert run([*path.split(), "--help"]) == ExitCode.OK
        too_wide = [line for line in capsys.readouterr().out.splitlines() if len(line) > 80]
        assert too_wide == [], path
