"""The replicas on this broker: their logs and roles, and the leaderships that they exercise."""
