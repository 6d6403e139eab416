"""A member of a stream application at work."""
