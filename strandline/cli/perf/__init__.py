"""`strandline perf`: measurements through the clients that users have."""
