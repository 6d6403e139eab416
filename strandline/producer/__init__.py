"""The producer: batches records and writes them, each once."""
