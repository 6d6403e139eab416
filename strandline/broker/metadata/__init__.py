"""Cluster metadata for clients, and the system's own topics."""
