"""One term of the active controller: its fenced session, its reads and its writes."""
