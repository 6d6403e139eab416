"""The decisions of a round: which faults, when, to which members. Pure: the same seed gives the same plan."""
