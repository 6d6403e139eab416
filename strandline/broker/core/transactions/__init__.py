"""The coordinator of transactions: pure decisions over the records of `__transaction_state`."""
