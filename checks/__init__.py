"""What `make check` runs: ruff, mypy and import-linter, and the rules of this project that no tool knows."""
