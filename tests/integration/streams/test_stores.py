"""A member's disk after a restart: complete, empty, or garbage (docs/use/streams.md)."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline import LocalCluster
from tests.integration.streams.application import feeding, fill, streaming
from tests.integration.streams.verdict import committed, exactly_once

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

USERS = 8_000


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
async def test_a_lost_store_is_restored_from_the_changelog(
    cluster: LocalCluster, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    """(CORRECTNESS S6) the disk is a cache: with any content, every line is counted once."""
    async with streaming(cluster, tmp_path, partitions=1, state_bytes=2_000) as app:
        first = await app.start()
        await fill(app, 0, USERS)
        await app.running(first)
        await committed(app)
        async with feeding(app):
            await first.kill()
            harm(first.state)
            second = await app.start(state=first.state)
            await app.running(second)
            assert second.restored(app.user_tasks[0]) > 0, second.printed
        _ = await exactly_once(app)


async def test_a_member_that_comes_back_restores_what_its_store_does_not_have_yet(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """(CORRECTNESS S3) its checkpoint says how far its store is, after an end in order to the last commit."""
    async with streaming(cluster, tmp_path, partitions=1, state_bytes=2_000) as app:
        task = app.user_tasks[0]
        first = await app.start()
        await fill(app, 0, USERS)
        await app.running(first)
        await committed(app)
        for state, restores in ((first.state, False), (tmp_path / "another-disk", True)):
            app.members[-1].signal(signal.SIGTERM)
            assert await app.members[-1].ended() == 0, app.members[-1].log
            member = await app.start(state=state)
            await app.running(member)
            assert (member.restored(task) > 0) is restores, member.printed
        _ = await exactly_once(app)
