"""The broker: replicates partitions, elects leaders, coordinates groups."""
