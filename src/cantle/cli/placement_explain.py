"""``cantle explain --placement``: the same question, answered from what OpenStack Placement has. It needs no server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cantle.api.v1.explain import shape
from cantle.conf import api as conf_api
from cantle.conf import files as conf_files
from cantle.conf import pci as conf_pci
from cantle.conf import placement as conf_placement
from cantle.engine import absent
from cantle.errors import BadConfig
from cantle.keeper.placement_explain import explain
from cantle.store import publication
from cantle.store.database import Database


def ask(
    config_files: Sequence[str], *, name: str | None, specs: Mapping[str, str], count: int, hostname: str | None
) -> dict[str, Any]:
    """What ``GET /v1/explain`` answers, of Placement's view.

    :raises BadConfig: ``placement-not-configured``, and what the sections raise.
    :raises NotFound: ``host-not-found``; what `cantle.keeper.placement_explain.explain` raises, as all else.
    """
    conf = conf_files.read(*((list(config_files), []) if config_files else conf_files.usual_places()))
    client = conf_placement.client(conf)
    if client is None:
        raise BadConfig(
            "placement-not-configured", "[placement] names no way to log in (auth_type and what belongs to it)."
        )
    db = Database.open(conf_api.database_url(conf))
    try:
        if hostname is not None:
            with db.read() as connection:
                if not publication.hosts_named(connection, [hostname]):
                    raise absent.host(hostname)
        found = explain(
            db,
            client,
            name=name,
            extra_specs=None if name is not None else specs,
            count=count,
            hostname=hostname,
            aliases=conf_pci.aliases(conf),
        )
    finally:
        db.close()
    answer: dict[str, Any] = msgspec.to_builtins(shape(found))
    return answer
