"""What an event says, in plain sentences."""
