"""The load that measurements, fault tests and the demo send, and the waits for a cluster under load."""
