"""Which state of a thing a change is meant for: as RFC 9110, section 13.1, has it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cantle.errors import BadRequest
from cantle.model.precondition import Precondition

tags = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='"*'), min_size=1, max_size=20)


@given(tags, st.lists(tags, max_size=3), st.booleans())
def test_a_thing_matches_exactly_the_strong_tags_that_name_it(tag: str, others: list[str], weak: bool) -> None:
    header = ", ".join([f'"{other}"' for other in others] + [('W/"' if weak else '"') + tag + '"'])
    asked = Precondition.parse(header, None)
    assert asked.holds(tag) == (not weak or tag in others)
    assert not asked.holds(None)


@given(tags, st.lists(tags, max_size=3))
def test_if_none_match_holds_for_whatever_it_does_not_name(tag: str, others: list[str]) -> None:
    header = ",".join(f'W/"{other}"' for other in others) or None
    asked = Precondition.parse(None, header)
    assert asked.holds(tag) == (tag not in others)
    assert asked.holds(None)


def test_an_asterisk_stands_for_any_that_is_there() -> None:
    assert Precondition.parse("*", None).holds("3-abc")
    assert not Precondition.parse("*", None).holds(None)
    assert not Precondition.parse(None, " * ").holds("3-abc")
    assert Precondition.parse(None, "*").holds(None)


def test_only_if_match_shows_that_somebody_has_looked() -> None:
    assert Precondition.parse('"3"', None).looked("3")
    assert not Precondition.parse(None, '"2"').looked("3")
    assert Precondition().looked(None)


@pytest.mark.parametrize("value", ["3", '"3', '3"', '"3" "4"', '"3",', "", '*, "3"', 'w/"3"'])
def test_what_is_no_tag_is_refused_with_its_header(value: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Precondition.parse(value, None)
    assert caught.value.code == "bad-precondition"
    assert "If-Match" in caught.value.message


@given(st.text(max_size=40))
def test_any_text_is_either_understood_or_refused(value: str) -> None:
    with contextlib.suppress(BadRequest):
        Precondition.parse(value, value)
