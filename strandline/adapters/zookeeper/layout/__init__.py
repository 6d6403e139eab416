"""The content of znodes that has more to it than a few fields; `znodes` has their paths."""
