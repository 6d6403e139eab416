"""Assignors: pure functions from subscriptions to targets. The same input has the same result everywhere."""
