"""Measurements of the control plane: what a change of the cluster costs each process."""
