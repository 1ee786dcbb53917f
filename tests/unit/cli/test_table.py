"""Tables on terminals of any width: nothing is lost, and what people copy from there is in one piece."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.cli.output import print_record, safe
from cantle.cli.table import fitted, print_table

LEASE = "52b53d2c-071d-49c5-b7bb-88bdf11dde5d"
TIME = "2026-12-01T04:58:49+00:00"
TOKEN = "cantle_05537aee861240ec84de63f2b3d7027b_rhJnuu9tHdhWMSDRY54cnWMHrkyP4uE-2-nd2PlXnPw"
LEASES = ("UUID", "STATE", "PROFILE_NAME", "HOSTNAME", "WORKLOAD")


class Terminal(io.StringIO):
    """A terminal as a command sees it; how wide it is, COLUMNS says."""

    def isatty(self) -> bool:
        return True


def shown(headers: Sequence[str], *rows: Sequence[str], columns: int) -> list[str]:
    out = Terminal()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("NO_COLOR", "1")
        print_table(headers, rows, out)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_the_id_of_a_lease_can_be_copied_whatever_its_workload_is_called(columns: int) -> None:
    """A pod's name of 117 characters left 22 columns for the uuid, which was broken."""
    lines = shown(LEASES, (LEASE, "active", "whole", "mixed-lab", "trainer-" * 15), columns=columns)
    assert lines[1].startswith(f"{LEASE}  active")
    assert lines[0].split() == list(LEASES)


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_a_token_is_shown_in_one_piece(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was folded at 80 columns: whoever copied it had half of it, or a line's end within."""
    monkeypatch.setenv("COLUMNS", str(columns))
    out = Terminal()
    print_record({"token": TOKEN, "uuid": LEASE, "created_at": TIME}, "table", out=out)
    assert {TOKEN, LEASE, TIME} <= set(out.getvalue().split())


@pytest.mark.parametrize("terminal", ["dumb", "xterm-256color"])
def test_every_column_of_a_wide_list_is_there(terminal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`lease list -o wide` lost STATE, ATTACH, OWNER and REASON on a terminal without colours, and had others one letter wide."""
    monkeypatch.setenv("TERM", terminal)
    headers = (*LEASES, "ATTACH", "OWNER", "CREATED_AT", "EXPIRES_AT", "ON_EXPIRY", "REASON", "ARQS")
    row = (
        LEASE,
        "active",
        "whole",
        "gpu1",
        "名前" * 9,
        "-",
        "local",
        TIME,
        TIME,
        "detach",
        "-",
        f"{LEASE} Bound {LEASE}",
    )
    for columns in (40, 80, 200):
        lines = shown(headers, row, columns=columns)
        assert lines[0].split() == list(headers)
        assert {"active", "local", "detach", TIME} <= set(lines[1].split())


def test_sentences_are_folded_between_words_and_stay_in_the_window() -> None:
    lines = shown(
        ("HOSTNAME", "ADDRESS", "REASON", "MEND"),
        (
            "mixed-lab",
            "0000:65:00.0",
            "is unassignable and offers nothing",
            "move the card to another slot, or give these up",
        ),
        columns=60,
    )
    assert max(map(len, lines)) <= 60
    assert len(lines) > 2
    assert "unassignable" in " ".join(lines).split()
    assert not any(line.endswith(" ") for line in lines)


def test_letters_of_two_columns_are_aligned_by_what_they_take() -> None:
    lines = shown(("WORKLOAD", "HOST"), ("名前名前名", "gpu1"), ("vm1", "gpu2"), columns=80)
    assert lines == ["WORKLOAD    HOST", "名前名前名  gpu1", "vm1         gpu2"]


@given(
    st.lists(st.tuples(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60)), max_size=4),
    st.integers(10, 120),
)
def test_nothing_is_lost_however_narrow_the_window_is(rows: list[tuple[str, str, str]], columns: int) -> None:
    cells = [tuple(map(safe, row)) for row in rows]
    lines = shown(("A", "B", "C"), *cells, columns=columns)
    given = Counter("".join("".join(cell.split()) for row in [("A", "B", "C"), *cells] for cell in row))
    assert Counter("".join("".join(line.split()) for line in lines)) == given


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 300)), min_size=1, max_size=12), st.integers(20, 300))
def test_columns_fit_the_window_and_none_is_narrower_than_it_must_be(sizes: list[tuple[int, int]], window: int) -> None:
    widths, floors = [max(one) for one in sizes], [min(one) for one in sizes]
    gaps = 2 * (len(sizes) - 1)
    found = fitted(widths, floors, window)
    if found is None:
        assert sum(floors) + gaps > window
        return
    assert all(low <= new <= old for low, new, old in zip(floors, found, widths, strict=True))
    assert sum(found) + gaps <= window
    assert sum(found) + gaps == window or found == widths  # no room is wasted
