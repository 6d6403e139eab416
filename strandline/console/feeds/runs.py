"""The runs whose folders a console shows."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from strandline.console.core.runs.run import Run, RunTimeline
from strandline.console.feeds.run_folder import State, read_run, read_timeline, state_of
from strandline.errors import SettingsError

TIMELINES_KEPT: Final = 4


class Runs:
    """Runs by the names of their folders. A folder is read in a thread, when a page asks for it and its files
    are others than before."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders: dict[str, Path] = {}
        for folder in folders:
            name, again = folder.name, 1
            while name in self._folders:
                again += 1
                name = f"{folder.name}-{again}"
            self._folders[name] = folder
        self._known: dict[str, tuple[State, Run]] = {}
        self._kept: OrderedDict[str, tuple[State, RunTimeline]] = OrderedDict()
        self._reading = asyncio.Lock()

    async def all(self) -> tuple[list[Run], list[str]]:
        """What each run was, without its findings; and a sentence for each that cannot be read."""
        async with self._reading:
            return await asyncio.to_thread(self._all)

    def _all(self) -> tuple[list[Run], list[str]]:
        found: list[Run] = []
        unreadable: list[str] = []
        for name, folder in self._folders.items():
            try:
                state = state_of(folder)
                known = self._known.get(name)
                if known is None or known[0] != state:
                    known = self._known[name] = state, replace(read_run(name, folder), findings=())
                found.append(known[1])
            except (SettingsError, OSError) as error:
                unreadable.append(f"{name}: {error}")
        return found, unreadable

    async def timeline(self, name: str) -> RunTimeline | None:
        """All that happened in a run, None if there is none of this name. Raises SettingsError, OSError."""
        folder = self._folders.get(name)
        if folder is None:
            return None
        async with self._reading:
            state = await asyncio.to_thread(state_of, folder)
            kept = self._kept.pop(name, None)
            if kept is None or kept[0] != state:
                kept = state, await asyncio.to_thread(read_timeline, name, folder)
            self._kept[name] = kept
            if len(self._kept) > TIMELINES_KEPT:
                self._kept.popitem(last=False)
        return kept[1]
