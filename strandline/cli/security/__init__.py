"""Commands about what protects a cluster: certificates, and users."""
