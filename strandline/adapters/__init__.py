"""Implementations of the ports, one folder for each part of the outside world."""
