"""Tools of this very machine: what they come to, what they say, and when they are not there or do not end."""

from __future__ import annotations

from pathlib import Path

import pytest

from cantle.errors import HostError
from cantle.kernel import tools
from cantle.kernel.root import Root
from cantle.kernel.tools import Ran


def test_a_tool_s_exit_status_and_words_are_handed_on_in_one_line() -> None:
    assert tools.run(["sh", "-c", "echo out; echo first >&2; echo; echo '  second' >&2; exit 7"], 10) == Ran(
        7, "first; second", "out\n\n"
    )
    assert tools.run(["sh", "-c", "echo only out"], 10) == Ran(0, "only out", "only out\n")
    assert tools.run(["sh", "-c", "printf 'a\\377b' >&2; exit 1"], 10) == Ran(1, "a\N{REPLACEMENT CHARACTER}b")


def test_of_much_talk_the_end_is_kept() -> None:
    words = tools.run(["sh", "-c", "seq 1 1000; echo the cause"], 10).words
    assert words.endswith("999; 1000; the cause")
    assert len(words) == 400


def test_a_tool_that_is_not_there_and_one_that_does_not_end_are_told_apart() -> None:
    with pytest.raises(HostError, match="there is no no-such-tool in ") as caught:
        tools.run(["no-such-tool"], 10)
    assert caught.value.code == "tool-not-run"
    with pytest.raises(HostError, match=r"sleep did not end within 0\.05 s") as caught:
        tools.run(["sleep", "60"], 0.05)
    assert caught.value.code == "tool-not-run"


def test_a_tool_has_nothing_to_read() -> None:
    assert tools.run(["cat"], 10) == Ran(0, "")


def test_a_tree_of_files_has_no_tools(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="only the machine itself can run true"):
        Root(tmp_path).run(["true"], 10)
