"""The end of a log's life: the first failure of its disk is the last thing it does (CORRECTNESS E14)."""

from __future__ import annotations

from types import TracebackType

from strandline.errors import CorruptMessage, StorageFailed


class Fence:
    """`with fence:` around whatever touches the disk. One object a log, entered as often as needed.

    The first OSError closes it, and so does a batch that is not where the log has it. From then on
    entering raises StorageFailed with the first reason: nothing can be written after a torn write, and
    nothing read from a file that nobody understands any more.
    """

    __slots__ = ("failed", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.failed: str | None = None

    def check(self) -> None:
        """Raises StorageFailed if the fence is closed."""
        if self.failed is not None:
            raise StorageFailed(f"{self.name}: {self.failed}")

    def __enter__(self) -> None:
        self.check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and isinstance(error, OSError | CorruptMessage):
            if self.failed is None:
                self.failed = str(error)
            raise StorageFailed(f"{self.name}: {error}") from error
