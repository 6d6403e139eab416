"""Decisions of a consumer: positions, membership, assignors."""
