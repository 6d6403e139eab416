"""Ends a log at the first failure of its disk: nothing is written or read after it (CORRECTNESS E14)."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from strandline.errors import CorruptMessage, StorageBusy, StorageFailed
from strandline.ports import NO_DESCRIPTORS, NO_SPACE, SyncFailed


class Fence:
    """`with fence:` surrounds all code that touches the disk. A log has one, entered as often as needed.

    The first OSError closes it, and so does a batch that is not where the log has it. Afterwards entering
    raises StorageFailed with the first reason: nothing can be written after a torn write, and nothing read
    from a file whose content is unknown.

    `with fence.repeatable:` surrounds code that may be repeated after it could not open a file: a lack of
    descriptors says nothing about the disk, and raises StorageBusy with the fence open.

    `with fence.freeing:` surrounds code that deletes records, and writes no more than small files which are
    replaced as a whole. It may be repeated after it found the disk full, too: a log that cannot be shortened
    now, or not whole, can still be read. Only for a leader: a follower that does not delete what its leader
    deleted must not be in sync.
    """

    __slots__ = ("failed", "freeing", "name", "on_closed", "repeatable")

    def __init__(self, name: str) -> None:
        self.name = name
        self.failed: str | None = None
        self.on_closed: Callable[[OSError | CorruptMessage], None] | None = None
        """Called once, with the error that closed the fence, on the thread that met it."""
        self.repeatable = _Repeatable(self, NO_DESCRIPTORS, "nothing was done, try again")
        self.freeing = _Repeatable(self, NO_DESCRIPTORS + NO_SPACE, "what is left is deleted later")

    def check(self) -> None:
        """Raises StorageFailed if the fence is closed."""
        if self.failed is not None:
            raise StorageFailed(f"{self.name}: {self.failed}")

    def close(self, error: OSError) -> None:
        """Closes the fence, unless it is closed, for a failure of another file than the log's."""
        if self.failed is None:
            self.failed = str(error)
            if self.on_closed is not None:
                self.on_closed(OSError(str(error)))  # even if it was a sync: none of this log failed

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
    """A side of a fence that lets these errors pass, as StorageBusy; see `Fence`."""

    __slots__ = ("_errors", "_fence", "_outlook")

    def __init__(self, fence: Fence, errors: tuple[int, ...], outlook: str) -> None:
        self._fence = fence
        self._errors = errors
        self._outlook = outlook

    def __enter__(self) -> None:
        self._fence.check()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        passes = isinstance(error, OSError) and error.errno in self._errors
        if passes and not isinstance(error, SyncFailed):
            raise StorageBusy(f"{self._fence.name}: {error}; {self._outlook}") from error
        self._fence.__exit__(kind, error, traceback)
