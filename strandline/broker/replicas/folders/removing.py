"""Removes the folders of deleted replicas from the disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from strandline.broker.replicas.folders.groups import Groups
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.host import Threads


class Removing:
    """Removes folders that were moved aside, those that are to go at the same time together."""

    def __init__(self, folder: DataFolder, threads: Threads) -> None:
        self._folder = folder
        self._groups = Groups[_Removal](self._remove, threads)

    async def remove(self, aside: Path) -> None:
        """Raises OSError."""
        removal = _Removal(aside)
        while not removal.done:
            await self._groups.join(removal)
        if removal.error is not None:
            raise removal.error

    def _remove(self, group: Sequence[_Removal]) -> None:
        """Their new names are synced first: no loss of power leaves a part of the content of a folder under
        its old name."""
        waiting = [each for each in group if not each.done]
        try:
            self._folder.sync_names()
        except OSError as error:
            for removal in waiting:
                removal.end(error)
            return
        for removal in waiting:
            try:
                self._folder.files.remove_directory(removal.aside)
            except OSError as error:
                removal.end(error)
            else:
                removal.end(None)


class _Removal:
    def __init__(self, aside: Path) -> None:
        self.aside = aside
        self.error: OSError | None = None
        """Why the folder is still there, once the removal is done."""
        self.done = False

    def end(self, error: OSError | None) -> None:
        self.error, self.done = error, True
