"""`python -m examples.log_counts`: counts lines of logs, on as many members as you like."""
