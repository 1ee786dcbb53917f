"""What Alembic runs around the migrations. The connection is handed in by `cantle.store.migrate`; there is no offline mode."""

from __future__ import annotations

from alembic import context

from cantle.store.schema import metadata

connection = context.config.attributes["connection"]
# SQLite can roll back CREATE TABLE too, if only one asks: a migration that was killed leaves nothing behind.
context.configure(
    connection=connection,
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
    transaction_per_migration=False,
)
with context.begin_transaction():
    context.run_migrations()
