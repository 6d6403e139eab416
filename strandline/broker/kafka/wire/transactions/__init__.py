"""The messages of producers that have transactions, and of tools that look at these."""
