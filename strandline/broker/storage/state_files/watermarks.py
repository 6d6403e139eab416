"""The high watermarks of a broker's logs, on its disk (CORRECTNESS H7).

    watermarks        the HW of each log
    watermarks_lost   the highest HW ever known of each log that has ended below it since a loss

After a loss a log may get other records at the offsets that it lost. A HW of before the loss says nothing
about those, so a HW that is lower than the one on the disk is written before the log can grow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from strandline.broker.storage.state_files.checkpoint import Checkpoint
from strandline.ids import Offset, PartitionKey
from strandline.ports import Files


class Watermark(NamedTuple):
    """The HW of a log, and the highest HW ever known of it."""

    reached: Offset
    known: Offset


class Watermarks:
    """The two files of one broker."""

    def __init__(self, folder: Path, *, files: Files) -> None:
        """Raises StorageFailed if a file is damaged."""
        self._reached = Checkpoint(folder / "watermarks", files=files)
        self._lost = Checkpoint(folder / "watermarks_lost", files=files)

    def get(self, key: PartitionKey) -> Watermark:
        reached, lost = (file.get(entry_name(key)) or 0 for file in (self._reached, self._lost))
        return Watermark(Offset(reached), Offset(max(reached, lost)))

    def begin(self, key: PartitionKey) -> None:
        """Begin a new log: the entries of an earlier one are removed from the files. Raises OSError."""
        self._reached.begin(entry_name(key))
        self._lost.begin(entry_name(key))

    def forget(self, key: PartitionKey) -> None:
        """Drop the entries of a deleted log. Never waits."""
        self._reached.forget(entry_name(key))
        self._lost.forget(entry_name(key))

    def write(self, read: Callable[[], Mapping[PartitionKey, Watermark]]) -> None:
        """Write what `read` returns; other entries stay. May run in a thread. Raises OSError."""
        self._reached.update(lambda: _reached(read()))
        self._lost.update(lambda: self._losses(read()))

    def lower(self, watermarks: Mapping[PartitionKey, Watermark]) -> None:
        """Lower the entries that are above the HW given here. Raises OSError."""
        self._lost.update(
            lambda: self._losses(watermarks)
        )  # first: what is known to be lost is never forgotten
        self._reached.lower(_reached(watermarks))

    def _losses(self, watermarks: Mapping[PartitionKey, Watermark]) -> dict[str, int]:
        """The entries of logs with a loss, and 0 for those that had one."""
        losses = {
            entry_name(key): known if known > reached else 0 for key, (reached, known) in watermarks.items()
        }
        return {name: known for name, known in losses.items() if known or self._lost.get(name)}


def entry_name(key: PartitionKey) -> str:
    return f"{key.topic_id}-{key.partition}"


def _reached(watermarks: Mapping[PartitionKey, Watermark]) -> dict[str, int]:
    return {entry_name(key): watermark.reached for key, watermark in watermarks.items()}
