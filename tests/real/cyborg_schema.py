"""The tables of openstack-cyborg 17 as its own migrations make them: ``python -m tests.real.cyborg_schema URL``.

Of its packages only its own is needed, and of that only ``db`` and ``common/constants``: what else it depends on is not installed.
"""

from __future__ import annotations

import sys

from alembic.config import Config
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from tests.real.places import STACK
from tests.real.processes import run

REQUIREMENT = "openstack-cyborg==17.0.0"
PLACE = STACK / "cyborg"


def install() -> None:
    """The package, and none that it needs."""
    if not (PLACE / "cyborg").exists():
        words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(PLACE), REQUIREMENT]
        run(words, STACK / "cyborg.log")


def make(url: str) -> None:
    """Its tables in an empty database. In a process of its own: its modules come from elsewhere."""
    words = [sys.executable, "-m", "tests.real.cyborg_schema", url]
    run(words, STACK / "cyborg.log", env={"PYTHONPATH": str(PLACE)})


def _migrate(url: str) -> None:
    place = PLACE / "cyborg" / "db" / "sqlalchemy" / "alembic"
    config = Config()
    config.set_main_option("script_location", str(place))
    script = ScriptDirectory.from_config(config)
    engine = create_engine(url.replace("mariadb:", "mysql+pymysql:", 1))
    with engine.connect() as connection:
        options = {"fn": lambda revision, _context: script._upgrade_revs("head", revision)}
        context = MigrationContext.configure(connection, opts=options)
        with Operations.context(context), context.begin_transaction():
            context.run_migrations()
    engine.dispose()


if __name__ == "__main__":
    _migrate(sys.argv[1])
