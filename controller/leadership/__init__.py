"""Asking brokers to move leadership: preferred leaders, transfers, unclean elections."""
