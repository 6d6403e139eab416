"""Tasks on this member: running, learned, standing by."""
