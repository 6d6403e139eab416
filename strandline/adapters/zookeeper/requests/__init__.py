"""Requests of a session on their way to ZooKeeper."""
