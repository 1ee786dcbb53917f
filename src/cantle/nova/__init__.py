"""The compute service: what it is told. Imported only where ``[nova]`` is configured: keystoneauth1 comes with an extra."""
