"""A ZooKeeper ensemble in memory: znodes, servers, sessions."""
