"""Ports for streams of bytes: what they accept, encrypt and count."""
