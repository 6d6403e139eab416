"""The tasks on this member: running, learned and standby."""
