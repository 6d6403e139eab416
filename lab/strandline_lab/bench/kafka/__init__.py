"""Measurements of the Kafka port, with librdkafka as the client."""
