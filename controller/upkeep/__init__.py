"""What the active controller does on its own: repairs, queues of dead brokers, health."""
