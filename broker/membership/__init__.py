"""This broker among the others: its registration and lease, and which of them are alive."""
