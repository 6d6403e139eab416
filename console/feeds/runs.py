"""The runs whose folders a console shows."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from strandline.console.core.runs.run import Run, RunTimeline
from strandline.console.feeds.run_folder import read_run, read_timeline
from strandline.errors import SettingsError

TIMELINES_KEPT: Final = 4


class Runs:
    """Runs by the names of their folders. A folder is read when a page asks for it, in a thread."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders: dict[str, Path] = {}
        for folder in folders:
            name, again = folder.name, 1
            while name in self._folders:
                again += 1
                name = f"{folder.name}-{again}"
            self._folders[name] = folder
        self._kept: OrderedDict[str, RunTimeline] = OrderedDict()
        self._reading = asyncio.Lock()

    async def all(self) -> tuple[list[Run], list[str]]:
        """What each run was, and a sentence for each that cannot be read."""
        found: list[Run] = []
        unreadable: list[str] = []
        for name, folder in self._folders.items():
            try:
                found.append(await asyncio.to_thread(read_run, name, folder))
            except (SettingsError, OSError) as error:
                unreadable.append(f"{name}: {error}")
        return found, unreadable

    async def timeline(self, name: str) -> RunTimeline | None:
        """All that happened in a run, None if there is none of this name. Raises SettingsError, OSError."""
        folder = self._folders.get(name)
        if folder is None:
            return None
        async with self._reading:
            found = self._kept.get(name)
            if found is None:
                found = self._kept[name] = await asyncio.to_thread(read_timeline, name, folder)
                if len(self._kept) > TIMELINES_KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(name)
        return found
