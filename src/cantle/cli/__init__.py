"""The ``cantle`` command. ``cli/serve`` is the one place that joins both towers."""
