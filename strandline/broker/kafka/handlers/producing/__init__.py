"""Produce, and what a broker remembers of idempotent Kafka producers."""
