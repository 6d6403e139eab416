"""The users of a cluster in ZooKeeper."""
