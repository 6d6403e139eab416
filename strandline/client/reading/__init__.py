"""Reading partitions: for a consumer, and for clients that need no consumer."""
