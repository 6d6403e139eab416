"""A topic whose brokers remove old records."""
