"""Cantle among real parts: a real Keystone, and the clients that operators and Nova really use."""
