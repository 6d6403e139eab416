"""Measurements of the cluster: failover, handover, many partitions."""
