"""Measurements: one module a question, each prints its own table."""
