"""The state of one group: its members, offsets and reports."""
