"""Cantle: finds the accelerators of a private cloud, slices them, and lends the slices to guests."""

__version__ = "0.1.0.dev0"
