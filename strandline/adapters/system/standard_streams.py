"""Makes the standard streams of a process fit to use, however it was started."""

from __future__ import annotations

import io
import os
import select
import sys
from typing import Any, Final, TextIO

STDOUT: Final = 1
STDERR: Final = 2
BUFFER_BYTES: Final = 64 * 1024


class _Patient(io.FileIO):
    """A file whose `write` waits until the file takes something: any process that shares a pipe or a
    terminal may have set it to O_NONBLOCK."""

    def write(self, data: Any, /) -> int:
        while (written := super().write(data)) is None:
            select.select((), (self,), ())
        return written


def open_standard_streams() -> None:
    """Has standard output and standard error write everything or raise OSError, and opens /dev/null for each
    standard stream that is closed.

    Under PYTHONUNBUFFERED Python gives the two no buffer. What the system does not take at once is then lost
    without an error: if a signal interrupts a long write, or if the file does not block. A buffer writes the
    rest, too. Each text with the end of a line is passed on at once, as PYTHONUNBUFFERED asks.

    Without a standard stream the event loop's own descriptors would get its number, and libuv aborts when it
    closes one. To write to a standard output that was closed raises OSError.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = _writing_all(os.open(os.devnull, os.O_RDONLY), "utf-8", "strict", at_once=True)
    else:
        sys.stdout = _whole(sys.stdout, STDOUT)
    if sys.stderr is not None:
        sys.stderr = _whole(sys.stderr, STDERR)


def _whole(stream: TextIO, descriptor: int) -> TextIO:
    """A stream to the same file that writes all; `stream` itself if it is no file, as in a test."""
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.flush()
    at_once = stream.line_buffering or stream.write_through
    return _writing_all(descriptor, stream.encoding, stream.errors, at_once=at_once)


def _writing_all(descriptor: int, encoding: str, errors: str | None, *, at_once: bool) -> TextIO:
    raw = _Patient(descriptor, "w", closefd=False)
    return io.TextIOWrapper(io.BufferedWriter(raw, BUFFER_BYTES), encoding, errors, line_buffering=at_once)
