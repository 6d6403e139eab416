"""ZooKeeper through kazoo, and the layout of the znodes."""
