"""Measurements of what work costs as it grows."""
