"""What the overview says: what is wrong now, and how the brokers are. Pure."""
