"""Changes to the cluster by the caller's own clients: each reads facts, says what it would do, does it."""
