"""Shared by all commands: options, output, and exit status."""
