"""Whether a file of a setting was replaced: it may be, while the process runs."""

from __future__ import annotations

from pathlib import Path

Stamp = tuple[int, int, int, int]


def stamp(path: Path) -> Stamp | None:
    """Another value once the file was replaced, or has another mode; None: there is no such file now."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_mode
