"""Background work of the active controller: repairs, queues of dead brokers, health."""
