"""`python -m examples.log_counts`: counts lines of logs, on any number of members."""
