"""The checks of `make check`: ruff, mypy, import-linter, and the project's own rules."""
