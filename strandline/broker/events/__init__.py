"""Records what happens to replicas on this broker, for the topic `__state_changes`."""
