"""Moves replicas: reassignments, drains, and the check whether a broker may be stopped."""
