"""Kafka's names of configs: which ones clients may set, and what each one's value is here."""
