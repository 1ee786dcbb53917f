"""``cantle config check`` finds what a service would refuse at its start."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.cli.serving import cantle


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ("[api]\nauth = bogus\n", "[api] auth"),
        ("[agents]\nwaiting_places = many\n", "[agents] waiting_places"),
        ("[keeper]\nevent_days = -\n", "[keeper] event_days"),
        ("[webhook]\nurl = ftp://hooks.example\n", "[webhook] url"),
    ],
)
def test_an_option_that_serve_would_refuse_is_refused_by_the_check(tmp_path: Path, config: str, named: str) -> None:
    file = tmp_path / "cantle.conf"
    file.write_text(config, encoding="utf-8")
    done = cantle("config", "check", "--config-file", str(file), "--state-dir", str(tmp_path / "state"))
    assert (done.code, named in done.err) == (78, True), done.err
