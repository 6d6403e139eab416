"""Decisions of the controller, and nothing else."""
