"""Decisions about repairs and queues, and the cluster in numbers."""
