"""For which lives of its broker a replica's log counts, over losses of power and of folders (E2, E3)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.broker.replicas.log_lives import lives_counted, lives_present
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.broker.storage.state_files.partition_folder import DESCRIPTION
from strandline.ids import BrokerEpoch, BrokerId, Offset
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import CLOCK, HOST, KEY, NAME, settings, write

EACH = TopicConfig(flush_messages=1)
NEVER = TopicConfig()


@contextmanager
def life(tmp_path: Path, epoch: int, *, boot: int = 1, clean: bool = False) -> Iterator[ReplicaManager]:
    """One life of broker 1, in this boot of its machine."""
    boot_id_file = tmp_path / "boot"
    boot_id_file.write_text(f"boot {boot}")
    folder = DataFolder(tmp_path / "data", BrokerId(1), boot_id_file, SYSTEM_FILES)
    manager = ReplicaManager(settings(data_dir=folder.path), folder, HOST)
    try:
        manager.load()
        folder.begin_session(epoch)
        folder.begin_life(BrokerEpoch(epoch))
        yield manager
        manager.close(clean=clean)
    finally:
        folder.close()


async def created(manager: ReplicaManager, config: TopicConfig) -> Replica:
    """The replica, on the medium, with three committed records that count as the config wants it."""
    replica = manager.create(NAME, KEY, config)
    await manager.anchoring.anchor(replica)
    for value in "abc":
        write(replica, 1, value)
        if replica.log.needs_flush(CLOCK.monotonic()):
            replica.log.flush()
    replica.raise_watermark(Offset(3))
    return replica


def counted(manager: ReplicaManager) -> set[int]:
    return set(lives_counted(manager.folder, manager.named(*NAME).log))


def present(manager: ReplicaManager) -> set[int]:
    return set(lives_present(manager.folder, manager.named(*NAME).log))


async def test_a_log_that_was_synced_record_by_record_keeps_its_lives(tmp_path: Path) -> None:
    """CORRECTNESS E2, E3: it is a member of the ISR as if its broker had been stopped cleanly."""
    with life(tmp_path, 1) as manager:
        await created(manager, EACH)
    with life(tmp_path, 2, boot=2) as manager:
        assert counted(manager) == {1, 2}
    with life(tmp_path, 3, boot=2) as manager:
        assert counted(manager) == {1, 2, 3}


async def test_a_log_that_may_lack_its_end_counts_for_the_lives_that_follow(tmp_path: Path) -> None:
    """CORRECTNESS E2: also in later lives of the same boot, whose page cache is whole and comes too late."""
    with life(tmp_path, 1) as manager:
        await created(manager, NEVER)
    for epoch in (2, 3):
        with life(tmp_path, epoch, boot=2) as manager:
            assert counted(manager) == set(range(2, epoch + 1))
            assert present(manager) == set(range(1, epoch + 1))


async def test_a_log_that_was_only_opened_since_it_was_closed_keeps_its_lives(tmp_path: Path) -> None:
    """CORRECTNESS E2, E3: nothing was appended since everything was synced."""
    with life(tmp_path, 1, clean=True) as manager:
        await created(manager, NEVER)
    with life(tmp_path, 2):
        pass
    with life(tmp_path, 3, boot=2) as manager:
        assert counted(manager) == {1, 2, 3}


async def test_a_log_that_ends_below_a_known_watermark_is_never_whole(tmp_path: Path) -> None:
    """CORRECTNESS E15, H7: a disk that lies about its syncs; what is known to be lost is remembered."""
    with life(tmp_path, 1, clean=True) as manager:
        segment = next((await created(manager, EACH)).log.directory.glob("*.log"))
    (tmp_path / "data" / "clean_shutdown").unlink()
    segment.unlink()
    for epoch in (2, 3):
        with life(tmp_path, epoch, boot=2) as manager:
            assert 1 not in counted(manager)
            assert manager.named(*NAME).watermark_known == 3


async def test_a_replica_that_is_new_counts_for_its_own_life_and_those_that_follow(tmp_path: Path) -> None:
    with life(tmp_path, 1):
        pass
    with life(tmp_path, 2) as manager:
        await created(manager, NEVER)
        assert counted(manager) == present(manager) == {2}
    with life(tmp_path, 3) as manager:
        assert counted(manager) == present(manager) == {2, 3}


def remove(folder: Path) -> None:
    shutil.rmtree(folder)


def empty(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


def leave_the_description(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name != DESCRIPTION:
            path.unlink()


@pytest.mark.parametrize("lose", [remove, empty, leave_the_description])
@pytest.mark.parametrize("boot", [1, 2], ids=["same-boot", "power-lost"])
async def test_a_folder_that_is_lost_is_no_log_of_an_earlier_life(
    tmp_path: Path, lose: Callable[[Path], None], boot: int
) -> None:
    """CORRECTNESS E18: the broker's lives count, and this log was there in none of them. It stays so over
    lives, until it has joined an ISR; what was known to be committed is remembered."""
    with life(tmp_path, 1, clean=boot == 1) as manager:
        directory = (await created(manager, EACH)).log.directory
    lose(directory)
    with life(tmp_path, 2, boot=boot) as manager:
        replica = manager.create(NAME, KEY, EACH)
        assert replica.watermark_known == 3
        await manager.anchoring.anchor(replica)
        assert counted(manager) == present(manager) == {2}
    with life(tmp_path, 3, boot=boot) as manager:
        assert counted(manager) == present(manager) == {2, 3}


@pytest.mark.parametrize("content", [b"", b"\0" * 64, None])
async def test_a_folder_that_lost_its_description_is_scanned_and_counts_for_no_earlier_life(
    tmp_path: Path, content: bytes | None
) -> None:
    """CORRECTNESS E2, H7: it was opened as new, without a look at what is in it."""
    with life(tmp_path, 1, clean=True) as manager:
        directory = (await created(manager, NEVER)).log.directory
    if content is None:
        (directory / DESCRIPTION).unlink()
    else:
        (directory / DESCRIPTION).write_bytes(content)
    with life(tmp_path, 2) as manager:
        assert manager.get(KEY) is None
        replica = manager.create(NAME, KEY, NEVER)
        await manager.anchoring.anchor(replica)
        assert replica.log.log_end_offset == 3
        assert replica.log.scanned_bytes > 0
        assert (counted(manager), present(manager)) == ({2}, {1, 2})


async def test_a_folder_of_an_earlier_version_is_accepted(tmp_path: Path) -> None:
    """An earlier version wrote no `log.json` before the first flush, and no version into the description."""
    with life(tmp_path, 1, clean=True) as manager:
        replica = manager.create(NAME, KEY, NEVER)
    directory = replica.log.directory
    assert not (directory / "log.json").exists()
    description = (directory / DESCRIPTION).read_text().replace(', "version": 2', "")
    (directory / DESCRIPTION).write_text(description)
    with life(tmp_path, 2) as manager:
        assert counted(manager) == {1, 2}


async def test_the_description_is_on_the_medium_before_anything_counts(tmp_path: Path) -> None:
    """CORRECTNESS E18: `anchor` syncs it and the folder; only then `log.json` says that the log began."""
    with life(tmp_path, 1) as manager:
        replica = manager.create(NAME, KEY, NEVER)
        assert not (replica.log.directory / "log.json").exists()
        await manager.anchoring.anchor(replica)
        assert replica.log.provenance.anchored
        assert (replica.log.directory / "log.json").exists()
