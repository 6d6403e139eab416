"""The folders of deleted replicas: removed together, once their new names are on the medium."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Final

import pytest

from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.replicas.folders.removing import Removing
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.ids import BrokerId
from strandline.ports import SyncFailed
from tests.broker.support.replicas import HOST

DATA: Final = Path("/data/1")
FOLDERS: Final = 50


class Bench:
    """Folders with a file each that were moved aside, on a disk that can fail."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.removing = Removing(DataFolder(DATA, BrokerId(1), Path("/boot_id"), self.files), HOST.threads)
        self.done: list[str] = []
        self.broken: tuple[str, str] | None = None
        """An operation that fails, at paths with this name."""
        self.errors: dict[Path, OSError] = {}
        self.asides = [self._aside(number) for number in range(FOLDERS)]
        self.files.fault = self._fault

    def _aside(self, number: int) -> Path:
        folder, aside = DATA / f"topic-{number}", DATA / f"{number}.deleted"
        self.files.make_directory(folder)
        self.files.close(self.files.open(folder / "file", create=True))
        self.files.sync_directory(folder)
        self.files.sync_directory(DATA)
        self.files.rename_directory(folder, aside)
        return aside

    def _fault(self, operation: str, path: Path) -> int | None:
        self.done.append(operation)
        if (operation, path.name) == self.broken:
            raise OSError(errno.EIO, "as the test wants it", str(path))
        return None

    async def remove_all(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for aside in self.asides:
                tasks.create_task(self._remove(aside))

    async def _remove(self, aside: Path) -> None:
        try:
            await self.removing.remove(aside)
        except OSError as error:
            self.errors[aside] = error


async def test_folders_that_go_at_the_same_time_share_a_sync() -> None:
    bench = Bench()
    await bench.remove_all()
    assert not bench.errors
    assert bench.files.directories(DATA) == []
    assert (bench.done.count("sync_directory"), bench.done.count("remove_directory")) == (1, FOLDERS)


@pytest.mark.parametrize("kept", [0, 1])
async def test_no_loss_of_power_leaves_a_part_of_a_replica_under_its_name(kept: int) -> None:
    """CORRECTNESS E18: the new name is synced before anything is removed."""
    bench = Bench()
    await bench.remove_all()
    found = bench.files.after_power_loss(lambda n: min(n, kept)).directories(DATA)
    assert all(name.endswith(".deleted") for name in found)


async def test_a_folder_that_stays_is_reported_and_the_others_go() -> None:
    bench = Bench()
    bench.broken = "remove_directory", bench.asides[3].name
    await bench.remove_all()
    assert list(bench.errors) == [bench.asides[3]]
    assert bench.files.directories(DATA) == [bench.asides[3].name]


async def test_without_the_sync_no_folder_is_removed() -> None:
    bench = Bench()
    bench.broken = "sync_directory", DATA.name
    await bench.remove_all()
    assert set(bench.errors) == set(bench.asides)
    assert all(isinstance(error, SyncFailed) for error in bench.errors.values())
    assert len(bench.files.directories(DATA)) == FOLDERS


async def test_a_folder_of_a_group_that_was_given_up_goes_with_the_next() -> None:
    bench = Bench()
    first, other = bench.asides[:2]
    async with asyncio.TaskGroup() as tasks:
        cancelled = tasks.create_task(bench.removing.remove(first))
        tasks.create_task(bench.removing.remove(other))
        await asyncio.sleep(0)
        cancelled.cancel()
    assert other.name not in bench.files.directories(DATA)
    assert first.name in bench.files.directories(DATA)
