"""The laboratory: what measures strandline and tries to break it. It imports strandline, never the other way.

`simulation` runs the real code on virtual time under faults that a seed draws, `chaos` does so with processes
and containers, `interop` runs the clients and suites of other projects, `bench` measures, `report` writes the
page about a run, and `cli` is the command `strandline-lab`.
"""
