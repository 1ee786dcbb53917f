"""Which schema this version needs, known without importing Alembic. A test holds it equal to the newest migration."""

from __future__ import annotations

#: Revisions are numbers of four digits, so that they compare as text.
HEAD = "0015"
