"""Measurements of the log: producing, fetching, storage, peers."""
