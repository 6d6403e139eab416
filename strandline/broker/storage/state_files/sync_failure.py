"""A failed sync, remembered for the next life of the log: `sync_failed.json` in the partition's folder.

A kernel that could not write pages may drop them and mark them clean (CORRECTNESS E3, E14): the bytes are
still read from memory, are not on the disk, and no later sync writes them. So the next life reads everything
that was not known to be synced, checks it, and rewrites it. A log that lacks any record by then is damaged.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

import structlog

from strandline.broker.storage.state_files.checkpoint import PARTIAL_SUFFIX, read_whole, write_atomically
from strandline.ports import Files, SyncFailed

logger = structlog.get_logger(__name__)

SYNC_FAILURE_FILE: Final = "sync_failed.json"
_COPY_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class SyncFailure:
    """The end of a log at a failed sync, and the error."""

    log_end_offset: int
    reason: str

    def save(self, directory: Path, *, files: Files) -> None:
        """Not synced, since the disk refuses to: the file survives the process, as the doubtful pages do. A
        loss of power is detected by the boot id. Raises OSError."""
        data = json.dumps(asdict(self)).encode()
        write_atomically(directory / SYNC_FAILURE_FILE, data, files=files, sync=False)

    @classmethod
    def load(cls, directory: Path, *, files: Files) -> Self | None:
        """None if there is no file. A damaged one still counts as a failure. Raises OSError."""
        try:
            data = read_whole(directory / SYNC_FAILURE_FILE, files=files)
        except FileNotFoundError:
            return None
        try:
            raw = json.loads(data)
            return cls(int(raw["log_end_offset"]), str(raw["reason"]))
        except (ValueError, TypeError, KeyError):
            return cls(2**63 - 1, f"{SYNC_FAILURE_FILE} is damaged: {data[:80]!r}")


def save_failure(error: Exception, directory: Path, log_end_offset: int, *, files: Files) -> None:
    """Save the failure if it is one of a sync, as far as the disk allows; never raises."""
    if not isinstance(error, SyncFailed):
        return
    try:
        SyncFailure(log_end_offset, str(error)).save(directory, files=files)
    except OSError as again:
        logger.error("a failed sync is not remembered", folder=str(directory), reason=str(again))


def write_anew(path: Path, *, files: Files) -> None:
    """Replace a file by a synced copy; the caller syncs the directory. Raises OSError."""
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    source = files.open(path)
    try:
        target = files.open(partial, create=True)
        try:
            files.truncate(target, 0)
            position = 0
            while part := files.read(source, _COPY_BYTES, position):
                written = files.append(target, (part,))
                if written != len(part):
                    raise OSError(f"{partial}: {written} of {len(part)} bytes written")
                position += written
            files.sync(target)
        finally:
            files.close(target)
    finally:
        files.close(source)
    files.rename(partial, path)
