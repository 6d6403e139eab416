"""The service `Groups`: coordinators of consumer groups, on `__consumer_offsets`."""
