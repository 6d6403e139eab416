"""gRPC: transports, listeners, and requests that are checked before they are parsed."""
