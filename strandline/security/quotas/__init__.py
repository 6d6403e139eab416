"""Quotas by user and client id, in Kafka's form: what holds for a caller, and how long the caller has to
wait."""
