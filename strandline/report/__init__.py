"""A page about a run of a cluster under faults: of chaos, or of the simulation.

`events` and `spans` are what happened; `traffic` and `partitions` count it; `facts` is all that is shown;
`picture` draws it, and `page` has the parts of the page.
"""
