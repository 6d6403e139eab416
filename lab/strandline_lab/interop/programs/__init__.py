"""Programs that use a client. Some run with another Python: they import nothing of strandline."""
