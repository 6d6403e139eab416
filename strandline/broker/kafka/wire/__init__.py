"""Kafka's protocol as bytes: requests to values, values to answers. No I/O, and nothing of the broker."""
