"""Measurements: each module answers one question, and prints its own table."""
