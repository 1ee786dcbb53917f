"""What is said of a thing that is not there: it can be read, whatever was asked for, and tells nobody what others have."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cantle.engine import absent


@given(st.text(max_size=2000))
def test_the_message_is_short_and_printable_whatever_was_asked_for(text: str) -> None:
    for error in (absent.host(text), absent.lease(text), absent.profile(text), absent.arqs([text] * 30)):
        assert len(error.message) < 20 * 900
        assert error.message.isprintable()


def test_a_long_list_is_cut_and_the_details_have_it_all() -> None:
    names = [f"p{number}" for number in range(25)]
    error = absent.profiles(names)
    assert "'p19' and 5 more." in error.message
    assert error.details["refs"] == names
