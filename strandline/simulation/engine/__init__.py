"""The world that a run plays: time, processes, clocks, disks, network, gRPC and ZooKeeper, from one seed."""
