"""How messages are declared, and what reads and writes them. One concern: from a declaration to functions."""
