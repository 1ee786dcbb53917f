"""A configuration file that cannot be used is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from cantle.conf import files
from cantle.errors import BadConfig


def test_a_configuration_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "cantle.conf"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadConfig) as caught:
        files.read([str(binary)])
    assert caught.value.code == "config-file-malformed"
    assert str(binary) in caught.value.message
