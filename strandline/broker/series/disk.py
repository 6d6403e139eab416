"""How full the disk of a broker's data folder is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strandline.adapters.telemetry.metrics import Sample, gauge
from strandline.broker.storage.state_files.data_folder import DataFolder

SPACE: Final = gauge("strandline_data_disk_bytes", "Bytes of the disk that has the data folder.")
FREE: Final = gauge("strandline_data_disk_free_bytes", "Of these, bytes that are free for this process.")

DISK_METRICS: Final = (SPACE, FREE)


class DiskSpace:
    """Asks the disk when it is iterated, not in a turn of the event loop: a disk of the network may take long
    to answer. A disk that fails has no samples."""

    def __init__(self, folder: DataFolder) -> None:
        self._folder = folder

    def __iter__(self) -> Iterator[Sample]:
        try:
            space, free = self._folder.files.space(self._folder.path)
        except OSError:
            return
        yield SPACE.is_now(space)
        yield FREE.is_now(free)
