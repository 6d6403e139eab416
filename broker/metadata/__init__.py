"""What clients are told of the cluster, and the topics that the system keeps for itself."""
