"""A keeper's publishing in a process of its own, to be killed: ``python -m tests.unit.placement.keeper_process FILE``.

As `cantle-keeper` puts it together, with shorter pauses.
"""

from __future__ import annotations

import sys

from cantle.conf import api, files
from cantle.conf import placement as conf_placement
from cantle.keeper import placement
from cantle.store.database import Database

if __name__ == "__main__":
    placement.EVERY_S, placement.FIRST_PAUSE_S, placement.LONGEST_PAUSE_S, placement.CLAIM_S = 0.05, 0.2, 0.2, 1.0
    conf = files.read(sys.argv[1:])
    publishing = conf_placement.publishing(conf)
    assert publishing is not None
    publishing.publisher(Database.open(api.database_url(conf))).run()
