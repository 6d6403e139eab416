"""Answers what tools ask about the cluster: partitions in parts, what has configs, transactions."""
