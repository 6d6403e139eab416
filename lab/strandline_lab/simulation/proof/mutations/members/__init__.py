"""Mutations that break the rules of consumer groups (G), by the protocol of their members."""
