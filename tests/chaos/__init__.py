"""Crashes, cuts and crowds: what must hold when any process dies at any step. See docs/chaos.md."""
