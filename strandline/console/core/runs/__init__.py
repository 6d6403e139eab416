"""A run whose folder is opened, a chaos round or a simulation run, on the same timeline as a cluster."""
