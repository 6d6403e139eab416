"""Writing and reading the internal topics that hold events."""
