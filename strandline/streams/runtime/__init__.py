"""The runtime of one member of a stream application."""
