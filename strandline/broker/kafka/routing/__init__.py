"""What a client learns as its connection begins: versions, features, and which broker it has reached."""
