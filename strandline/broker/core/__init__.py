"""Decisions of a broker: pure, synchronous, `(event, now) -> effects`."""
