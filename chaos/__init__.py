"""Faults done to a whole cluster while clients write and read, and what is then found wrong.

A round draws a plan of faults from a seed, does them to a cluster (of processes, or of containers) under
load, heals everything, waits until all is well again, and holds what the clients saw against the logs.
docs/understand/chaos.md has it all.
"""
