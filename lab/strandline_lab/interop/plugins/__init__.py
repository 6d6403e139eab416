"""Plugins of pytest for suites of other projects. They import nothing of strandline."""
