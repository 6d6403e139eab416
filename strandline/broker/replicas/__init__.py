"""The replicas on this broker: their logs and roles, and the partitions that this broker leads."""
