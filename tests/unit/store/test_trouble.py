"""Trouble is told once, but each trouble."""

from __future__ import annotations

import logging

import pytest

from cantle.store.trouble import Trouble


def test_another_failure_than_the_one_that_was_told_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    trouble = Trouble(logging.getLogger("cantle.test"), "it is back")
    trouble.over()
    for words in ("away", "away", "refused", "away"):
        trouble.met(words)
    trouble.over()
    trouble.over()
    trouble.met("away")
    told = [record.getMessage() for record in caplog.records]
    assert told == ["away", "refused", "away", "it is back", "away"]
