"""Measurements of consumer groups."""
