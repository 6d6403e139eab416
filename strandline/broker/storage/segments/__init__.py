"""The files of one log: segments, their indexes, and what is found in them."""
