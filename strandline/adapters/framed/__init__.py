"""Streams of framed messages over TCP, between members of a cluster: what gRPC's streams cost, they save."""
