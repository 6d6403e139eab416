"""Runs suites and clients of other projects, as they are, against a cluster's Kafka ports."""
