"""Commands about what protects a cluster: certificates, users, and quotas."""
