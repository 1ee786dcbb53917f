"""The history of the schema, for Alembic. `cantle.store.migrate` runs it."""
