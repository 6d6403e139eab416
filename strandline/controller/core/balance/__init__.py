"""Plans an even spread of replicas, preferred leaders and bytes, and the next moves of such a plan."""
