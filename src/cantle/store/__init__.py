"""Tables and queries (SQLAlchemy Core), one module per noun."""
