"""What a member finds on its disk when it comes back: everything, nothing, or rubbish (docs/streams.md)."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline import LocalCluster
from tests.integration.streams.application import Application, feeding, fill, streaming
from tests.integration.streams.verdict import events, exactly_once

pytestmark = pytest.mark.timeout(120)

USERS = 5_000


def wiped(folder: Path) -> None:
    shutil.rmtree(folder)


def corrupted(folder: Path) -> None:
    """Every file that RocksDB has written is there, with other bytes in its middle."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size > 0]
    assert files
    for path in files:
        size = path.stat().st_size
        with path.open("r+b") as file:
            _ = file.seek(size // 3)
            _ = file.write(b"\xa5" * (size // 3 + 1))


@pytest.mark.parametrize("harm", [wiped, corrupted], ids=["wiped", "corrupted"])
async def test_a_store_that_is_lost_is_made_anew_from_the_changelog(
    cluster: LocalCluster, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    """(CORRECTNESS S6) the disk is a cache: whatever happens to it, every line is counted once."""
    async with streaming(cluster, tmp_path, partitions=1) as app:
        first = await app.start()
        await fill(app, 0, USERS)
        await app.running(first)
        async with feeding(app):
            await app.until(lambda: first.events("behind"), "lines are counted")
            await first.kill()
            harm(first.state)
            second = await app.start(state=first.state)
            await app.running(second)
        _ = await exactly_once(app)


async def test_a_member_that_comes_back_restores_what_its_store_does_not_have_yet(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """(CORRECTNESS S3) its checkpoint says how far its store is, after a clean end to the last commit."""
    async with streaming(cluster, tmp_path, partitions=1, leave_timeout_ms=500) as app:
        first = await app.start()
        await fill(app, 0, USERS)
        await app.running(first)
        _ = await exactly_once(app)
        first.signal(signal.SIGTERM)
        assert await first.ended() == 0, first.log
        second = await app.start(state=first.state)
        await app.running(second)
        assert await restored_lag(app, app.user_tasks[0]) == 0
        third_folder = tmp_path / "another-disk"
        second.signal(signal.SIGTERM)
        assert await second.ended() == 0, second.log
        third = await app.start(state=third_folder)
        await app.running(third)
        assert await restored_lag(app, app.user_tasks[0]) >= USERS


async def restored_lag(app: Application, task: str) -> int:
    """How many records the last restore of a task had before it, by what the group was told."""
    told = [event for event in await events(app) if event.get("task") == task]
    restores = [event for event in told if event["event"] == "task_restoring" and "lag" in event]
    return int(str(restores[-1]["lag"])) if restores else -1
