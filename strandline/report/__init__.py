"""What people read: `text` has lines, sizes and durations about any cluster; `round_files` and `verdict` are
what a round of faults leaves behind, for the console and for its own page."""
