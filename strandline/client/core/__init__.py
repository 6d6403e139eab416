"""What a reader of partitions decides about its positions and fetches."""
