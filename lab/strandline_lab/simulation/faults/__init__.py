"""What is done to a cluster in a run: each file is one family of faults."""
