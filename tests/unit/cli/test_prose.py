"""Sentences on a terminal are folded between words; where a program reads them they are left alone."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cli.serving import CANTLE
from tests.unit.cli.test_output import on_terminal

from cantle.cli.main import run
from cantle.cli.prose import folded, refilled


class Window(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        """See the base class."""
        return True


@pytest.fixture(autouse=True)
def forty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty columns."""
    monkeypatch.setenv("COLUMNS", "40")


def test_a_long_line_is_folded_between_words_with_its_own_indentation() -> None:
    text = "Short.\n  1. a step with more words than fit into the window at once"
    assert folded(text, Window()).split("\n") == [
        "Short.",
        "  1. a step with more words than fit",
        "  into the window at once",
    ]


def test_in_a_pipe_nothing_is_touched() -> None:
    text = "word " * 50
    assert folded(text, io.StringIO()) == text
    assert refilled(text, io.StringIO()) == text


@given(st.lists(st.from_regex(r"[a-z]{1,12}", fullmatch=True), max_size=60))
def test_no_word_is_lost_and_no_line_is_too_long(words: list[str]) -> None:
    shown = folded(" ".join(words), Window())
    assert shown.split() == words
    assert max(map(len, shown.split("\n"))) <= 40


def test_paragraphs_are_filled_anew_and_what_is_laid_out_is_not() -> None:
    text = "One\nparagraph of a page\nthat was filled for another window.\n\n- a list\n- of two\n\n    code   here"
    assert refilled(text, Window()).split("\n") == [
        "One paragraph of a page that was filled",
        "for another window.",
        "",
        "- a list",
        "- of two",
        "",
        "    code   here",
    ]


def test_a_complaint_on_a_terminal_breaks_no_word() -> None:
    command = ["/bin/sh", "-c", '"$@" 2>&1; true', "sh", *CANTLE, "--url", "http://127.0.0.1:1", "capacity"]
    lines = on_terminal(command, columns=40).replace("\r\n", "\n").splitlines()
    assert max(map(len, lines)) <= 40 + len("\x1b[31m\x1b[1m\x1b[0m")
    assert any("[server-unavailable]" in line for line in lines)


def test_an_explanation_in_a_pipe_is_the_page_as_it_stands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain-error", "bad-uuid"]) == 0
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) > 40
