"""Decisions about queued state changes, and the events that record them."""
