"""The proof that the simulation can see: one-line mutations of the real code, each found by a seed."""
