"""The end of a log's life: the first failure of its disk is the last thing it does (CORRECTNESS E14)."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from strandline.errors import CorruptMessage, StorageBusy, StorageFailed
from strandline.ports import NO_DESCRIPTORS


class Fence:
    """`with fence:` around whatever touches the disk. One object a log, entered as often as needed.

    The first OSError closes it, and so does a batch that is not where the log has it. From then on
    entering raises StorageFailed with the first reason: nothing can be written after a torn write, and
    nothing read from a file that nobody understands any more.

    `with fence.repeatable:` is for what may be done again after it could not open a file: a lack of
    descriptors says nothing about the disk, and raises StorageBusy with the fence open.
    """

    __slots__ = ("failed", "name", "on_closed", "repeatable")

    def __init__(self, name: str) -> None:
        self.name = name
        self.failed: str | None = None
        self.on_closed: Callable[[OSError | CorruptMessage], None] | None = None
        """Called once, with what closed it, on the thread that met it."""
        self.repeatable = _Repeatable(self)

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
                if self.on_closed is not None:
                    self.on_closed(error)
            raise StorageFailed(f"{self.name}: {error}") from error


class _Repeatable:
    """See `Fence`."""

    __slots__ = ("_fence",)

    def __init__(self, fence: Fence) -> None:
        self._fence = fence

    def __enter__(self) -> None:
        self._fence.check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and error.errno in NO_DESCRIPTORS:
            raise StorageBusy(f"{self._fence.name}: {error}; nothing was done, try again") from error
        self._fence.__exit__(kind, error, traceback)
