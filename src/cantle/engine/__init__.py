"""The use cases. Every change of state happens here."""
