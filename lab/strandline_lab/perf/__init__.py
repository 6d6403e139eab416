"""`strandline-lab perf`: measurements through the public clients."""
