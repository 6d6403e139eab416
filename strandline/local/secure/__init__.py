"""What a secure local cluster has beside its members."""
