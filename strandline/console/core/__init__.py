"""What the console decides: pure functions of what was seen."""
