"""Logins by name and password: the steps of each mechanism, what a server keeps of a password, and bounds."""
