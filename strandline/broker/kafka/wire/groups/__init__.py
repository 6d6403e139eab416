"""The messages of consumer groups: of their members, of their offsets, and of administrators."""
