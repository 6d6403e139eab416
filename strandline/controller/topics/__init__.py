"""Creating, altering, growing and deleting topics."""
