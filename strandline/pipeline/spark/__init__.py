"""Starts Spark: its Java, memory, home and session."""
