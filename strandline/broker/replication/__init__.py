"""The service `Replication`: the leader's end and the follower's end of its streams."""
