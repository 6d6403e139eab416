"""How large what is written to ZooKeeper is, and may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strandline.config.limits import MULTI_BYTES_MAX, ZNODE_BYTES_MAX
from strandline.ports import Create, Operation, SetData

OPERATION_BYTES: Final = 64
"""The size of an operation beside its path and data: its header and access list."""


def operation_size(operation: Operation) -> int:
    """Bytes that the operation takes of MULTI_BYTES_MAX."""
    data = operation.data if isinstance(operation, Create | SetData) else b""
    return len(operation.path) + len(data) + OPERATION_BYTES


def check_size(path: str, data: bytes) -> None:
    """Raises ValueError if no znode can hold this."""
    if len(data) > ZNODE_BYTES_MAX:
        raise ValueError(f"{path}: {len(data)} bytes; a znode holds at most {ZNODE_BYTES_MAX}")


def check_multi(operations: Sequence[Operation]) -> None:
    """Raises ValueError if this is more than ZooKeeper takes at once."""
    size = 0
    for operation in operations:
        if isinstance(operation, Create | SetData):
            check_size(operation.path, operation.data)
            size += len(operation.path) + len(operation.data)
    if size > MULTI_BYTES_MAX:
        raise ValueError(f"a multi of {size} bytes; at most {MULTI_BYTES_MAX} fit")
