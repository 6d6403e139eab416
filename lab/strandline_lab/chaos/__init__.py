"""Injects faults into a whole cluster while clients write and read, and then checks the result.

A round draws a plan of faults from a seed and applies them to a cluster of processes or containers under
load. It heals everything, waits until the cluster is healthy again, and compares what the clients recorded
with the logs. docs/understand/chaos.md describes it.
"""
