"""A whole cluster as processes on this machine: ZooKeeper, brokers, controllers."""
