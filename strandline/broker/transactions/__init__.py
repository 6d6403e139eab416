"""Drives coordinators of transactions, and what they and leaders of partitions ask each other: markers, and
whether a producer may append. What is decided about a transaction is in `broker/core/transactions`."""
