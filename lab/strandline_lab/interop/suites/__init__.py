"""The suites and clients that can be run. Each file has one."""
