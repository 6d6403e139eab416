"""What a broker does with its logs from time to time: retention, flushes, compaction."""
