"""Measurements of the cluster: handover, many partitions, certificates, its start."""
