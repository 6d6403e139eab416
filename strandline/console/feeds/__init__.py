"""Reads the cluster with public clients alone."""
