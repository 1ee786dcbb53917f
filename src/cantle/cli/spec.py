"""Extra specs on a command line: ``KEY=VALUE``."""

from __future__ import annotations

from collections.abc import Sequence

import click


def specs_of(texts: Sequence[str]) -> dict[str, str]:
    """Extra specs by key. The value begins behind the first ``=``: ``gpus== 2`` is ``gpus`` and ``= 2``.

    :raises click.BadParameter: what is no KEY=VALUE, or a key given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise click.BadParameter(f"{text!r} is not KEY=VALUE, such as 'gpu_arch=s== fermi'.", param_hint="--spec")
        if key.strip() in found:
            raise click.BadParameter(f"{key.strip()!r} is given twice.", param_hint="--spec")
        found[key.strip()] = value.strip()
    return found
