"""Scripted kernels: a host tree that reacts to writes as the real one does, for the demo, tests and planning."""

from cantle.simulate.description import Description, load, packaged
from cantle.simulate.root import SimulatedRoot, build, reboot

__all__ = ["Description", "SimulatedRoot", "build", "load", "packaged", "reboot"]
