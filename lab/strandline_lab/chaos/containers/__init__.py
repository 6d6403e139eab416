"""A cluster in containers: the engine, a base image if none can be pulled, Compose, and the faults."""
