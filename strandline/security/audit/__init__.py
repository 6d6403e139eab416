"""What the audit log says of callers, and how often."""
