"""Decisions of a group coordinator."""
