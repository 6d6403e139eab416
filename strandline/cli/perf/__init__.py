"""`strandline perf`: measurements through the public clients."""
