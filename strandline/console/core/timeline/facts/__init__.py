"""What an event says, put into the rows that it is about."""
