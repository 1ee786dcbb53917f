"""What holds for every test: no settings of the developer's shell, and no deadline that a slow machine would miss."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("cantle", deadline=None)
settings.load_profile("cantle")

#: What tests themselves are told: to write golden files anew, where the kernel lab is, and where a MariaDB is.
KEPT = ("CANTLE_GOLDEN", "CANTLE_LAB_DIR", "CANTLE_TEST_MARIADB")

for name in [name for name in os.environ if name.startswith("CANTLE_") and name not in KEPT]:
    del os.environ[name]
