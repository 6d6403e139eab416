"""The outside world behind the ports, one thing a room."""
