"""Transactional producers that fence each other, die and run out of time, and readers of what they commit."""
