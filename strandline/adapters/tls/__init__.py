"""Encrypted connections: certificates, keys, and what is opened with them."""
