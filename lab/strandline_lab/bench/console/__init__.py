"""Measures the console: its first view, how soon it shows a change, its memory, what it costs brokers."""
