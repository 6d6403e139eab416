"""Who may use a znode: the identity of this process, and the ACLs that it sets."""
