"""What a broker knows of the cluster's security: its picture of the ACLs."""
