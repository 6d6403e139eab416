"""The command line of the laboratory. Commands import heavy modules only when they run."""
