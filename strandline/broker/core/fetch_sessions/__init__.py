"""Fetch sessions of Kafka clients (KIP-227): what a client has said it reads, and what it was answered."""
