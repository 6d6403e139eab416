"""Decisions of a consumer: positions, membership, assignment."""
