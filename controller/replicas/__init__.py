"""Where replicas are: reassignments, drains, and whether a broker may be stopped."""
