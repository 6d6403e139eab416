"""The active controller's part in the cluster's security: it writes the ACLs."""
