"""What commands print, in every format, whatever stands in the data."""

from __future__ import annotations

import datetime as dt
import io
import itertools
import json
import os
import pty
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import click
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cantle.cli.output import FORMATS, print_record, print_rows, safe
from cantle.cli.table import BLOCK


class Colour(StrEnum):
    """A value as the model has them."""

    RED = "red"


ROWS: list[dict[str, object]] = [
    {"name": "a", "size": 1, "tags": ["x", "y"], "on": True, "note": None},
    {"name": "longer", "size": 20, "tags": [], "on": False, "note": "fine"},
]


def rows(fmt: str, **options: Any) -> str:
    out = io.StringIO()
    print_rows(options.pop("rows", ROWS), ["name", "size", "on"], fmt, out=out, **options)
    return out.getvalue()


def record(fmt: str, one: dict[str, object], **options: Any) -> str:
    out = io.StringIO()
    print_record(one, fmt, out=out, **options)
    return out.getvalue()


def test_a_table_in_a_pipe_is_aligned_and_has_no_trailing_blanks() -> None:
    assert rows("table") == "NAME    SIZE  ON\na       1     yes\nlonger  20    no\n"


def test_a_table_in_a_pipe_is_never_cut_off() -> None:
    long = "x" * 500
    assert long in rows("table", rows=[{"name": long, "size": 1, "on": True}])


def test_wide_has_the_wide_columns() -> None:
    assert rows("wide", wide=["name", "tags", "note"]) == "NAME    TAGS  NOTE\na       x, y  -\nlonger  -     fine\n"


def test_value_has_no_header_and_tabs_between() -> None:
    assert rows("value") == "a\t1\ttrue\nlonger\t20\tfalse\n"


def test_json_and_yaml_have_every_field_of_a_row() -> None:
    assert json.loads(rows("json")) == ROWS
    assert yaml.safe_load(rows("yaml")) == ROWS


@pytest.mark.parametrize("fmt", ["json", "yaml"])
def test_chosen_columns_are_the_only_ones_in_a_document_too(fmt: str) -> None:
    assert yaml.safe_load(rows(fmt, chosen=["tags", "name"])) == [
        {"tags": ["x", "y"], "name": "a"},
        {"tags": [], "name": "longer"},
    ]


def test_columns_are_chosen_in_any_case_and_in_the_order_asked() -> None:
    assert rows("value", chosen=["SIZE", "name"]) == "1\ta\n20\tlonger\n"


def test_an_unknown_column_is_refused_with_the_known_ones() -> None:
    with pytest.raises(click.UsageError, match=r"no column 'nam'.*name, size, on, tags, note"):
        rows("table", chosen=["nam"])


@pytest.mark.parametrize("fmt", ["json", "yaml"])
def test_a_script_that_asks_for_columns_works_too_while_there_are_no_rows(fmt: str) -> None:
    """Which fields rows have is known from rows."""
    assert rows(fmt, rows=[], chosen=["owner"]) == "[]\n"
    assert rows("table", rows=[], chosen=["Owner"]) == "OWNER\n"


def test_no_rows_leave_the_header_and_a_word_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert rows("table", rows=[], empty="Nothing.") == "NAME  SIZE  ON\n"
    assert capsys.readouterr().err == "Nothing.\n"
    assert rows("json", rows=[], empty="Nothing.") == "[]\n"
    assert capsys.readouterr().err == ""


def test_a_record_is_a_line_for_each_field() -> None:
    assert record("table", {"name": "a", "size": None}) == "FIELD  VALUE\nname   a\nsize   -\n"
    assert record("value", {"name": "a", "size": None}) == "a\n\n"
    assert json.loads(record("json", {"name": "a", "size": None})) == {"name": "a", "size": None}


def test_a_record_shows_its_short_fields_in_a_table_and_all_of_them_elsewhere() -> None:
    one: dict[str, object] = {"name": "a", "links": ["x"]}
    assert "links" not in record("table", one, columns=["name"])
    assert "links" in record("wide", one, columns=["name"])
    assert "links" in record("json", one, columns=["name"])


def test_values_of_the_model_become_plain_values() -> None:
    one: dict[str, object] = {
        "c": Colour.RED,
        "t": dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
        "s": {"b", "a"},
        "m": {Colour.RED: (1, 2)},
    }
    plain = {"c": "red", "t": "2026-01-02T00:00:00+00:00", "s": ["a", "b"], "m": {"red": [1, 2]}}
    assert json.loads(record("json", one)) == plain
    assert yaml.safe_load(record("yaml", one)) == plain


def test_nested_values_read_well_in_a_table() -> None:
    one: dict[str, object] = {
        "groups": [{"resources:VGPU": "1", "trait:CUSTOM_A": "required"}, {"resources:PGPU": "1"}]
    }
    assert "resources:VGPU=1, trait:CUSTOM_A=required; resources:PGPU=1" in record("table", one)


HOSTILE = "\x1b[31mred\x1b]0;title\x07 \x9b2J \u202egnp.exe [bold]x[/bold] \n\r\t \u200b\ufeff"


@pytest.mark.parametrize("fmt", FORMATS)
def test_nothing_in_the_data_reaches_the_terminal_as_a_command(fmt: str) -> None:
    printed = rows(fmt, rows=[{"name": HOSTILE, "size": 1, "on": True}])
    assert not {*"\x1b\x07\x9b\u202e\u200b\ufeff\r"} & set(printed)
    assert "[bold]x[/bold]" in printed


@pytest.mark.parametrize("fmt", ["json", "yaml"])
def test_a_program_reads_back_what_was_in_the_data(fmt: str) -> None:
    assert yaml.safe_load(rows(fmt, rows=[{"name": HOSTILE}])) == [{"name": HOSTILE}]


@given(st.text())
def test_any_text_survives_json_and_is_one_safe_line_in_a_table(text: str) -> None:
    assert json.loads(record("json", {"x": text})) == {"x": text}
    assert record("table", {"x": text}).count("\n") == 2
    assert {unicodedata.category(character) for character in safe(text)}.isdisjoint({"Cc", "Cs", "Zl", "Zp"})


def test_a_table_on_a_terminal_folds_and_shows_everything_without_interpreting_it() -> None:
    """On a real pseudo-terminal of 40 columns: nothing is lost, nothing is wider than the window, nothing hostile gets through."""
    code = (
        "from cantle.cli.output import print_rows; "
        "print_rows([{'a': 'x' * 60, 'b': '[red]m\\x1b[41m'}], ['a', 'b'], 'table')"
    )
    printed = on_terminal([sys.executable, "-c", code], columns=40)
    plain = printed.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert plain.count("x") == 60 + 1  # one more in the escaped \x1b
    assert max(len(line) for line in plain.splitlines()) <= 40
    assert "\x1b[41m" not in printed
    assert "".join(plain.split()).count("[red]") == 1


def test_no_color_leaves_no_escape_on_a_terminal() -> None:
    code = "from cantle.cli.output import print_rows; print_rows([{'a': 1}], ['a'], 'table')"
    assert "\x1b" not in on_terminal([sys.executable, "-c", code], columns=40, NO_COLOR="1")
    assert "\x1b" in on_terminal([sys.executable, "-c", code], columns=40)


def on_terminal(command: list[str], *, columns: int, **environment: str) -> str:
    """What a command prints on a pseudo-terminal."""
    ours, theirs = pty.openpty()
    given = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    env = {**given, "COLUMNS": str(columns), "TERM": "xterm-256color", **environment}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env=env) as process:
        os.close(theirs)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:  # Linux answers EIO when the other side is closed
            pass
        finally:
            os.close(ours)
    assert process.returncode == 0
    return b"".join(parts).decode()


def test_rows_are_printed_as_they_come_and_never_held_all_at_once() -> None:
    """Ten thousand rows: whoever makes them is never asked for more than a block ahead of what is printed."""
    ahead: list[int] = []
    out = io.StringIO()

    def made() -> Iterator[dict[str, object]]:
        for number in range(10_000):
            ahead.append(number - out.getvalue().count("\n") if number % 1000 == 0 else 0)
            yield {"name": f"n{number}", "size": number, "on": True}

    print_rows(made(), ["name", "size", "on"], "table", out=out)
    assert out.getvalue().count("\n") == 10_001
    assert max(ahead) <= BLOCK


@pytest.mark.parametrize("fmt", ["json", "yaml"])
def test_a_document_printed_row_by_row_is_the_document_of_all_rows(fmt: str) -> None:
    printed = rows(fmt)
    assert yaml.safe_load(printed) == ROWS
    if fmt == "json":
        assert printed == json.dumps(ROWS, indent=2) + "\n"
    assert yaml.safe_load(rows(fmt, rows=[])) == []


@given(st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=20) | st.integers() | st.none()), max_size=4))
def test_any_rows_are_read_back_from_json_and_yaml(found: list[dict[str, object]]) -> None:
    for fmt in ("json", "yaml"):
        assert yaml.safe_load(rows(fmt, rows=found)) == found


def test_sorting_knows_numbers_from_words_and_puts_what_is_missing_last() -> None:
    found: list[dict[str, object]] = [{"name": "b", "size": 10}, {"name": "a", "size": None}, {"name": "c", "size": 9}]
    assert rows("value", rows=found, chosen=["name"], order="size") == "c\nb\na\n"
    assert rows("value", rows=found, chosen=["name"], order="SIZE:desc") == "b\nc\na\n"
    assert rows("value", rows=found, chosen=["name"], order="name", most=2) == "a\nb\n"


def test_a_limit_reads_no_further_than_it_prints() -> None:
    endless = ({"name": str(number), "size": 0, "on": True} for number in itertools.count())
    assert rows("value", rows=endless, chosen=["name"], most=3) == "0\n1\n2\n"


def test_a_table_on_a_terminal_that_fits_costs_no_folding() -> None:
    """Loading rich takes as long as the rest of the command."""
    code = (
        "import sys; from cantle.cli.output import print_rows; "
        "print_rows([{'a': 'x'}], ['a'], 'table'); print('rich' in sys.modules)"
    )
    assert on_terminal([sys.executable, "-c", code], columns=40).split()[-1] == "False"
