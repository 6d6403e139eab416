"""Metrics with a series for each partition, or for each offset of a group: they have a bound."""
