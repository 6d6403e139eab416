"""Whose a data folder is, and which lives of its broker still count (CORRECTNESS E2, E10)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strandline.adapters.system.files import SYSTEM_FILES
from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.storage.state_files.data_folder import LIVES_REMEMBERED_MAX, DataFolder
from strandline.errors import SettingsError
from strandline.ids import BrokerEpoch, BrokerId


@pytest.fixture
def boot(tmp_path: Path) -> Path:
    path = tmp_path / "boot_id"
    path.write_text("boot-1\n")
    return path


def opened(tmp_path: Path, boot: Path, broker: int = 1) -> DataFolder:
    return DataFolder(tmp_path / "data", BrokerId(broker), boot, SYSTEM_FILES)


def lived(tmp_path: Path, boot: Path, *epochs: int, clean: bool) -> None:
    """One process that registered under these epochs, one after the other."""
    folder = opened(tmp_path, boot)
    for epoch in epochs:
        folder.begin_session(epoch * 100)
        folder.begin_life(BrokerEpoch(epoch))
    if clean:
        folder.mark_clean()
    folder.close()


def test_a_killed_process_keeps_its_lives_while_the_same_kernel_runs(tmp_path: Path, boot: Path) -> None:
    """CORRECTNESS E2: what was written is in the page cache, so nothing of the log is lost."""
    lived(tmp_path, boot, 10, 20, clean=False)
    folder = opened(tmp_path, boot)
    assert (folder.clean, folder.page_cache_survived) == (False, True)
    assert not folder.power_lost
    assert folder.lives_after(None) == {10, 20}
    folder.close()


def test_after_a_loss_of_power_each_log_says_which_lives_count(tmp_path: Path, boot: Path) -> None:
    """CORRECTNESS E2, E3: an unclean restart may have lost the tail. A log that may lack it counts for the
    lives after that; one that proves to be whole counts for all of them."""
    lived(tmp_path, boot, 10, 20, clean=False)
    boot.write_text("boot-2\n")
    folder = opened(tmp_path, boot)
    assert (folder.clean, folder.page_cache_survived) == (False, False)
    assert folder.power_lost
    assert folder.last_life == 20
    folder.begin_life(BrokerEpoch(30))
    assert folder.lives_after(20) == {30}
    assert folder.lives_after(10) == {20, 30}
    assert folder.lives_after(None) == {10, 20, 30}
    folder.close()


def test_a_disk_detached_meanwhile_has_lost_unsynced_data(tmp_path: Path, boot: Path) -> None:
    """CORRECTNESS E2, E3: detached and attached again, in one boot."""
    lived(tmp_path, boot, 10, clean=False)
    life = tmp_path / "data" / "life.json"
    described = json.loads(life.read_text())
    life.write_text(json.dumps(described | {"volume": "of another attachment"}))
    folder = opened(tmp_path, boot)
    assert not folder.page_cache_survived
    folder.close()
    life.write_text(json.dumps({key: value for key, value in described.items() if key != "volume"}))
    folder = opened(tmp_path, boot)
    assert folder.page_cache_survived, "a version before this one did not say"
    folder.close()


def test_a_clean_shutdown_keeps_its_lives_over_another_boot(tmp_path: Path, boot: Path) -> None:
    """CORRECTNESS E2: the marker carries the broker epoch of the life that it ended."""
    lived(tmp_path, boot, 10, 20, clean=True)
    boot.write_text("boot-2\n")
    folder = opened(tmp_path, boot)
    assert folder.clean
    assert not folder.power_lost
    assert folder.lives_after(None) == {10, 20}
    folder.close()


def test_a_clean_shutdown_does_not_hide_a_loss_of_power_that_a_log_was_not_judged_by(
    tmp_path: Path, boot: Path
) -> None:
    """CORRECTNESS E2: a log that was unreadable since then may be readable in the next life."""
    lived(tmp_path, boot, 10, clean=False)
    boot.write_text("boot-2\n")
    folder = opened(tmp_path, boot)
    folder.keep_power_loss()
    folder.begin_life(BrokerEpoch(20))
    folder.mark_clean()
    folder.close()
    folder = opened(tmp_path, boot)
    assert (folder.clean, folder.power_lost) == (False, True)
    folder.close()


def test_the_clean_marker_is_gone_before_anything_else_happens(tmp_path: Path, boot: Path) -> None:
    """CORRECTNESS E2: a crash right after the start must not look like a clean shutdown."""
    lived(tmp_path, boot, 10, clean=True)
    opened(tmp_path, boot).close()
    boot.write_text("boot-2\n")
    folder = opened(tmp_path, boot)
    assert (folder.clean, folder.power_lost) == (False, True)
    folder.close()


def test_a_marker_of_an_earlier_life_is_ignored(tmp_path: Path, boot: Path) -> None:
    """CORRECTNESS E2: only the last life's own marker counts."""
    lived(tmp_path, boot, 10, clean=True)
    marker = (tmp_path / "data" / "clean_shutdown").read_bytes()
    lived(tmp_path, boot, 20, clean=False)
    (tmp_path / "data" / "clean_shutdown").write_bytes(marker)
    folder = opened(tmp_path, boot)
    assert not folder.clean
    folder.close()


def test_sessions_of_earlier_lives_are_known_and_the_present_one_is_not_among_them(
    tmp_path: Path, boot: Path
) -> None:
    """CORRECTNESS E10: only what an earlier life registered may be removed."""
    lived(tmp_path, boot, 10, clean=False)
    folder = opened(tmp_path, boot)
    folder.begin_session(2000)
    folder.begin_session(2000)
    assert folder.previous_sessions == {1000}
    folder.close()


def test_a_second_process_is_refused(tmp_path: Path, boot: Path) -> None:
    folder = opened(tmp_path, boot)
    with pytest.raises(SettingsError, match="another process uses this folder"):
        opened(tmp_path, boot)
    folder.close()


def test_a_folder_of_another_broker_or_cluster_is_refused(tmp_path: Path, boot: Path) -> None:
    folder = opened(tmp_path, boot)
    folder.check_cluster("one")
    folder.check_cluster("one")
    with pytest.raises(SettingsError, match="holds data of cluster one, but ZooKeeper is of cluster two"):
        folder.check_cluster("two")
    folder.close()
    with pytest.raises(SettingsError, match="belongs to broker 1, this is 2"):
        opened(tmp_path, boot, broker=2)
    opened(tmp_path, boot).close()  # the refusal released the lock


@pytest.mark.parametrize("name", ["meta.json", "life.json", "clean_shutdown"])
@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\x00"])
def test_a_damaged_file_is_named(tmp_path: Path, boot: Path, name: str, content: bytes) -> None:
    lived(tmp_path, boot, 10, clean=True)
    (tmp_path / "data" / name).write_bytes(content)
    with pytest.raises(SettingsError, match=f"{name} is damaged"):
        opened(tmp_path, boot)


def test_an_unreadable_boot_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="boot_id_file"):
        opened(tmp_path, tmp_path / "missing")


def test_the_lives_remembered_are_bounded(tmp_path: Path, boot: Path) -> None:
    lived(tmp_path, boot, *range(1, LIVES_REMEMBERED_MAX + 10), clean=False)
    folder = opened(tmp_path, boot)
    assert len(folder.lives_after(None)) == LIVES_REMEMBERED_MAX
    assert LIVES_REMEMBERED_MAX + 9 in folder.lives_after(None)
    assert folder.lives_after(1) == folder.lives_after(
        None
    )  # a life that is forgotten was before all of them
    folder.close()


def test_a_folder_that_is_closed_syncs_nothing_as_a_whole() -> None:
    """Its descriptor may be another file by then; a thread that is still at work syncs each file."""
    files = MemoryFiles()
    folder = DataFolder(Path("/data/1"), BrokerId(1), Path("/boot_id"), files)
    assert folder.sync_disk()
    folder.close()
    files.lock(Path("/data/other"))
    assert not folder.sync_disk()
