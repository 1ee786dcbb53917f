"""Completion in the three shells, and man pages: both are made from the commands themselves."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest
from tests.unit.cli.commands import every_command
from tests.unit.cli.serving import CANTLE, cantle

CHECKOUT = Path(__file__).resolve().parents[3]


def complete(line: str, shell: str = "bash") -> list[str]:
    """What a shell is told to offer for the last word of a line."""
    words = line.split(" ")
    variables = {"_CANTLE_COMPLETE": f"{shell}_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(CANTLE, capture_output=True, text=True, check=True, env={**os.environ, **variables})
    return [offer.rpartition(",")[2] for offer in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_asks_cantle_itself(shell: str) -> None:
    done = cantle("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert f"_CANTLE_COMPLETE={shell}_complete" in done.out


def test_an_unknown_shell_is_refused_with_those_there_are() -> None:
    done = cantle("completion", "csh")
    assert done.code == 2
    assert "'bash', 'zsh', 'fish'" in done.err


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("cantle dev", ["device"]),
        ("cantle --os", ["--os-cloud"]),
        ("cantle lease re", ["release", "renew"]),
        ("cantle device list --hea", ["--health"]),
        ("cantle device list -o ya", ["yaml"]),
        ("cantle token create x --role ad", ["admin"]),
    ],
)
def test_commands_options_and_values_are_completed(line: str, offered: list[str]) -> None:
    assert complete(line) == offered


def test_completing_a_command_loads_no_command() -> None:
    """A person waits for the key to do something: importing ``serve`` alone takes half a second."""
    code = (
        "import sys, click; from cantle.cli.main import cantle; "
        "found = cantle.shell_complete(click.Context(cantle), 's'); "
        "print([one.value for one in found], [name for name in sys.modules if name == 'cantle.cli.serve'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['scan', 'serve'] []\n"


@pytest.fixture(scope="module")
def man() -> ModuleType:
    """tools/man.py as a module."""
    spec = importlib.util.spec_from_file_location("man", CHECKOUT / "tools" / "man.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_command_has_a_man_page_with_all_its_options(man: ModuleType) -> None:
    pages = dict(man.pages())
    for path, command in every_command():
        page = pages[f"cantle-{path.replace(' ', '-')}.1"].replace("\\-", "-")
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert set(parameter.opts) <= set(re.findall(r"[-\w]+", page)), path
    assert {"cantle.1", "cantle-keeper.8", "cantle-manage-db-sync.8"} <= set(pages)


def test_no_line_of_a_man_page_is_taken_for_a_command_of_troff_that_is_none(man: ModuleType) -> None:
    known = re.compile(r"\.(TH|SH|PP|TP|B|BR|nf|fi)( |$)|[^.']|$")
    for name, page in man.pages():
        assert [line for line in page.splitlines() if known.match(line) is None] == [], name
        assert page.count("\n.nf\n") == page.count("\n.fi\n")


def test_exit_codes_and_environment_are_those_of_the_guide(man: ModuleType) -> None:
    page = dict(man.pages())["cantle.1"]
    assert ".SH EXIT STATUS\n.TP\n.B 0\ndone\n" in page
    assert ".B CANTLE_URL\n" in page


def test_the_tool_writes_pages_and_completions(man: ModuleType, tmp_path: Path) -> None:
    man.main(tmp_path)
    assert (tmp_path / "man1" / "cantle-lease-create.1").read_text().startswith('.TH "CANTLE-LEASE-CREATE" "1" ')
    made = {path.relative_to(tmp_path / "completions").as_posix() for path in tmp_path.glob("completions/*/*")}
    assert made == {"bash/cantle", "zsh/_cantle", "fish/cantle.fish"}
