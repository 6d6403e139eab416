"""The command line: one file for each family of commands. Commands import heavy modules only when they
run."""
