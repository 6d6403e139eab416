"""Every setting with its default, its unit and its bounds, and the limits that several packages share.

`limits` are constants. The other modules but `load` are settings, one module for each kind of program;
`load` builds them, and `explain` has the words for the one who sets them. Units and bounds
stand last in a name: `_ms`, `_bytes`, `_max`.
"""
