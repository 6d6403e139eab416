"""gRPC: transports, listeners, and the parsing and refusal of requests."""
