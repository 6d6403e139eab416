"""What a cluster keeps in ZooKeeper of ACLs and users, and the notices of their changes."""
