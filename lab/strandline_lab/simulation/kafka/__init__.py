"""A small Kafka client for simulated processes: it writes and reads through the Kafka ports of brokers."""
