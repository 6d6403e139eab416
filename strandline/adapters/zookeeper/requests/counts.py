"""Counts what a session asks of ZooKeeper."""

from __future__ import annotations

from collections.abc import Mapping


class RequestCounts:
    """By kind of request: how many were sent, and how many operations they carried together. The operations
    of a read are the znodes that it asks for."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[int, int]] = {}

    @property
    def counted(self) -> Mapping[str, tuple[int, int]]:
        """For each kind its requests and operations; it shows what is counted later too."""
        return self._counted

    def count(self, operation: str, operations: int) -> None:
        """Count one request."""
        self._add(operation, 1, operations)

    def add(self, counted: Mapping[str, tuple[int, int]]) -> None:
        """Count all that another has counted."""
        for operation, (requests, operations) in counted.items():
            self._add(operation, requests, operations)

    def _add(self, operation: str, requests: int, operations: int) -> None:
        requests_before, operations_before = self._counted.get(operation, (0, 0))
        self._counted[operation] = (requests_before + requests, operations_before + operations)
