"""What each kind of hardware means. Loaded by entry point (group ``cantle.drivers``)."""
