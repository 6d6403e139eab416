"""Quotas by user, client id and address, in Kafka's form: what holds for a caller or a connection, and how
long it has to wait."""
