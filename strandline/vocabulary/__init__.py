"""Values that brokers, controllers and clients share. No input, no output."""
