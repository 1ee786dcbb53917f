"""Pure values and rules, without any I/O. Everything else stands on this."""
