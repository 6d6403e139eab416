"""Resets of the offsets of groups."""
