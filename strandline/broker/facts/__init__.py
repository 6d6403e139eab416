"""Facts that a broker reads from ZooKeeper when it needs them; nothing here is watched."""
