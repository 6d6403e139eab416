"""Serves Kafka's protocol on a port of its own, with the handlers that gRPC uses."""
