"""The words of the laboratory, and what a round of chaos and a run of the simulation share. Pure.

* A seed draws a *plan*. A plan has *faults*, each with a kind, a beginning and a length.
* A *world* is what faults are done to: processes or containers (`chaos.world`), or the played machines of
  `strandline.simulation.engine.world`.
* A *nemesis* carries the faults of a plan out, and heals the world after the last one.
* Then the cluster has to *settle* (`settled.py`).
* An *observer* writes down what the cluster reports meanwhile (`observed.py`).
* A *judge* compares what was seen with the rules of `strandline.auditing`.
* The *outcome* of a round or a run is what was found, and its *report* a page (`strandline_lab.report`) with
  a *verdict* (`strandline.report.verdict`).
"""
