"""The load of measurements, fault tests and the demo, and waits for a cluster under load."""
