"""Whole runs of the simulation: workloads, faults and judges, drawn from a seed as one plan.

`strandline.simulation` plays the world; here a plan is drawn, run, judged, made smaller and reported.
"""
