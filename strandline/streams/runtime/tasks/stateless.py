"""The state of a stateless task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NoReturn


class Stateless:
    """Given to a pipeline without stores; no method is ever called."""

    dirty_bytes = 0

    def get(self, store: str, key: bytes) -> NoReturn:
        raise AssertionError(f"a task without stores asks for {store!r}")

    def put(self, store: str, key: bytes, value: bytes | None) -> NoReturn:
        raise AssertionError(f"a task without stores writes {store!r}")

    def range(self, store: str, start: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        raise AssertionError(f"a task without stores reads {store!r}")


STATELESS: Final = Stateless()
