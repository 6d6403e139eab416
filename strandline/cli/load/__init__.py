"""A load with a memory, and the check of what came of it."""
