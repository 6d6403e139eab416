"""What happened in a cluster, and how its parts are, as people read it: lines, sizes, durations.

The command line and the console show the same texts.
"""
