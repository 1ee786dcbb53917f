"""Write docs/deploy/cantle.conf.sample and policy.yaml.sample from the options and rules themselves: ``python tools/samples.py``."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from cantle.api.policy_cli import main as policy
from cantle.conf import sample

DEPLOY = Path(__file__).resolve().parent.parent / "docs" / "deploy"


def files() -> dict[Path, str]:
    """Content by path."""
    return {
        DEPLOY / "cantle.conf.sample": sample.text(),
        DEPLOY / "policy.yaml.sample": CliRunner().invoke(policy, ["sample"], catch_exceptions=False).output,
    }


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content, encoding="utf-8")
