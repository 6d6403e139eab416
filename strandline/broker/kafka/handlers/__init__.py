"""Answers Kafka's requests, as values, with the handlers of this broker."""
