"""Scripted kernels: a host tree that reacts to writes as the real one does, for the demo, tests and planning."""
