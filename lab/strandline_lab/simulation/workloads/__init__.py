"""What clients do in a run: each file is one workload, with the value that plans it."""
