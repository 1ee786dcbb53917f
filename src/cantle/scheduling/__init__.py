"""Choosing a host and cards without OpenStack: match, rank, claim, explain."""
