"""Topics: what the pages show of them, and what changes to them would do."""
