"""Cluster membership: this broker's registration and lease, and which other brokers are alive."""
