"""Reads records for pages with the caller's own clients. A reading has bounds, and ends with its request."""
