"""The page about a run of a cluster under faults.

`events` and `spans` are what happened in a run of chaos or of the simulation; `traffic` and `partitions`
count it; `facts` is all that is shown; `picture` draws it, and `page` has the parts of the page.
"""
