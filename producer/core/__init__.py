"""Decisions of a producer."""
