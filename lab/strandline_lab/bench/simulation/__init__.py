"""Measurements of the simulation: how much virtual time and how many seeds a second of a core plays."""
