"""The consumer: reads partitions, alone or as a member of a group."""
