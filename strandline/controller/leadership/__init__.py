"""Moves leadership on request: preferred leaders, transfers, unclean elections."""
