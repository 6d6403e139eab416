"""Measurements of the log: a follower that catches up, and what a batch costs each process."""
