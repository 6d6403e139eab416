"""A round on one page: what was done to the cluster, what it did, and what of that was wrong.

`told` has the values that a round leaves behind and `reading` makes them of its files; `facts` counts, with
`partitions` and `traffic`; `picture` draws, and `page` writes the page.
"""
