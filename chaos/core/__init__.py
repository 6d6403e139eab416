"""What is decided without a cluster: which faults, when, to whom. Pure: the same seed gives the same plan."""
