"""Measurements of what security costs."""
