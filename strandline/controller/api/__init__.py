"""The service `Admin`: requests, their wire format, and the stream of state changes."""
