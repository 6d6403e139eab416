"""Logins over gRPC: at the ports of a process, and of its own calls."""
