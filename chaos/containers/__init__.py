"""A world of containers: an engine, a base image where none can be pulled, Compose, and the faults."""
