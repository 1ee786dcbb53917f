"""What agents call: inventory, work, results (structs of :mod:`cantle.wire`)."""
