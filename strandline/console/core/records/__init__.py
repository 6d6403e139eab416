"""Records: how keys, values and headers are shown, and what is said about a part of a log."""
