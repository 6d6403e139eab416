"""The port `Files`: the real one and the one in memory keep the same promises; only one loses power."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strandline.adapters.system.files import SystemFiles
from strandline.adapters.system.memory_files import MemoryFiles
from strandline.ports import Files


@pytest.fixture(params=[SystemFiles, MemoryFiles])
def files(request: pytest.FixtureRequest) -> Files:
    made: Callable[[], Files] = request.param
    return made()


def test_files_grow_at_their_end_and_are_read_anywhere(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(FileNotFoundError):
        files.open(path)
    descriptor = files.open(path, create=True)
    assert files.append(descriptor, (b"abc", memoryview(b"defg")[1:])) == 6
    assert files.read(descriptor, 4, 1) == b"bcef"
    assert files.read(descriptor, 99, 4) == b"fg"
    assert files.read(descriptor, 1, 6) == b""
    files.truncate(descriptor, 2)
    files.append(descriptor, (b"!",))
    files.sync(descriptor)
    assert files.read(descriptor, 9, 0) == b"ab!"
    assert files.sizes(tmp_path) == {"file": 3}
    files.close(descriptor)


def test_names_appear_change_and_go(files: Files, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert files.make_directory(folder)
    assert not files.make_directory(folder)
    for name in ("one", "two"):
        descriptor = files.open(folder / name, create=True)
        files.append(descriptor, (name.encode() * 2,))
        files.close(descriptor)
    files.rename(folder / "one", folder / "two")
    files.sync_directory(folder)
    assert files.sizes(folder) == {"two": 6}
    reader = files.open(folder / "two")
    assert files.read(reader, 9, 0) == b"oneone"
    files.remove(folder / "two")
    assert files.read(reader, 9, 0) == b"oneone", "an open file outlives its name"
    files.close(reader)
    assert files.sizes(folder) == {}
    with pytest.raises(FileNotFoundError):
        files.remove(folder / "two")


def test_directories_are_listed_renamed_and_removed(files: Files, tmp_path: Path) -> None:
    files.make_directory(tmp_path / "a" / "inner")
    files.make_directory(tmp_path / "b")
    descriptor = files.open(tmp_path / "a" / "inner" / "file", create=True)
    files.close(files.open(tmp_path / "not a directory", create=True))
    assert sorted(files.directories(tmp_path)) == ["a", "b"]
    with pytest.raises(FileExistsError):
        files.make_directory(tmp_path / "not a directory")
    files.rename_directory(tmp_path / "a", tmp_path / "c")
    assert sorted(files.directories(tmp_path)) == ["b", "c"]
    files.append(descriptor, (b"12",))
    assert files.sizes(tmp_path / "c" / "inner") == {"file": 2}, "an open file moves with its directory"
    files.close(descriptor)
    files.remove_directory(tmp_path / "c")
    assert files.directories(tmp_path) == ["b"]
    for missing in (files.remove_directory, files.directories):
        with pytest.raises(FileNotFoundError):
            missing(tmp_path / "c")
    with pytest.raises(FileNotFoundError):
        files.rename_directory(tmp_path / "c", tmp_path / "d")


def test_a_disk_says_how_large_it_is_and_what_is_free(files: Files, tmp_path: Path) -> None:
    total, free = files.space(tmp_path)
    assert 0 < free <= total


def test_a_lock_is_held_until_its_descriptor_is_closed(files: Files, tmp_path: Path) -> None:
    files.make_directory(tmp_path)
    held = files.lock(tmp_path / "lock")
    with pytest.raises(BlockingIOError):
        files.lock(tmp_path / "lock")
    files.close(held)
    files.close(files.lock(tmp_path / "lock"))


def test_a_machine_without_power_has_another_boot_id_later() -> None:
    """CORRECTNESS E2: a killed process finds the same boot, and with it what the kernel had in memory."""
    files, path = MemoryFiles(), Path("/boot_id")
    assert files.after_crash().boot_id(path) == files.boot_id(path)
    assert files.after_power_loss(lambda n: n).boot_id(path) != files.boot_id(path)


def test_a_loss_of_power_takes_unsynced_data() -> None:
    """CORRECTNESS E3: bytes by `sync`, names by `sync_directory`; each for itself."""
    files, folder = MemoryFiles(), Path("/d")
    for name in ("synced", "bytes only", "names only"):
        descriptor = files.open(folder / name, create=True)
        files.append(descriptor, (b"12",))
        if name != "names only":
            files.sync(descriptor)
        if name != "bytes only":
            files.sync_directory(folder)
        files.append(descriptor, (b"34",))

    nothing = files.after_power_loss(lambda n: 0)
    # The directory was synced last after all three names were there.
    assert nothing.sizes(folder) == {"synced": 2, "bytes only": 2, "names only": 0}
    everything = files.after_power_loss(lambda n: n)
    assert everything.sizes(folder) == {"synced": 4, "bytes only": 4, "names only": 4}
    torn = files.after_power_loss(lambda n: min(n, 1))
    assert torn.sizes(folder) == {"synced": 3, "bytes only": 3, "names only": 1}


def test_everything_on_the_disk_is_synced_in_one_call() -> None:
    """CORRECTNESS E18: bytes and names, of files and folders, wherever they are."""
    files, data = MemoryFiles(), Path("/data")
    lock = files.lock(data / "lock")
    for name in ("one", "two"):
        files.make_directory(data / name)
        files.append(files.open(data / name / "file", create=True), (b"12",))
    files.rename(data / "two" / "file", data / "two" / "other name")
    assert files.after_power_loss(lambda n: 0).directories(data) == []
    assert files.sync_all(lock)
    found = files.after_power_loss(lambda n: 0)
    assert found.sizes(data / "one") == {"file": 2}
    assert found.sizes(data / "two") == {"other name": 2}
    assert found.sizes(data) == {"lock": 0}


def test_a_name_that_was_not_synced_may_be_the_old_one() -> None:
    """CORRECTNESS H7: a rename counts once the folder is synced."""
    files, folder = MemoryFiles(), Path("/d")
    for name in ("old", "new"):
        descriptor = files.open(folder / name, create=True)
        files.append(descriptor, (name.encode(),))
        files.sync(descriptor)
    files.sync_directory(folder)
    files.rename(folder / "new", folder / "old")
    before = files.after_power_loss(lambda n: 0)
    assert before.read(before.open(folder / "old"), 9, 0) == b"old"
    after = files.after_power_loss(lambda n: n)
    assert after.read(after.open(folder / "old"), 9, 0) == b"new"
    assert files.after_crash().sizes(folder) == {"old": 3}


def test_a_folder_that_was_not_synced_may_vanish_or_have_its_old_name() -> None:
    """CORRECTNESS E18: a log begins when its folder is on the medium, with every file that is in it."""
    files, data = MemoryFiles(), Path("/data")
    for name in ("kept", "new"):
        files.make_directory(data / name)
        descriptor = files.open(data / name / "file", create=True)
        files.append(descriptor, (b"12",))
        files.sync(descriptor)
        files.sync_directory(data / name)
        if name == "kept":
            files.sync_directory(data)
    assert files.after_power_loss(lambda n: 0).directories(data) == ["kept"]
    assert files.after_power_loss(lambda n: n).directories(data) == ["kept", "new"]

    files.rename_directory(data / "kept", data / "aside")
    assert files.after_crash().sizes(data / "aside") == {"file": 2}
    before = files.after_power_loss(lambda n: 0)
    assert (before.directories(data), before.sizes(data / "kept")) == (["kept"], {"file": 2})
    files.sync_directory(data)
    files.remove_directory(data / "aside")
    before = files.after_power_loss(lambda n: 0)
    assert (before.directories(data), before.sizes(data / "aside")) == (["aside", "new"], {"file": 2})
    assert files.after_power_loss(lambda n: n).directories(data) == ["new"]


def test_a_rename_is_whole_after_a_loss_of_power() -> None:
    """The port's `rename` is atomic: no loss of power leaves both names, or neither."""
    files, folder = MemoryFiles(), Path("/d")
    files.close(files.open(folder / "partial", create=True))
    files.sync_directory(folder)
    files.rename(folder / "partial", folder / "file")
    assert list(files.after_power_loss(lambda n: 0).sizes(folder)) == ["partial"]
    assert list(files.after_power_loss(lambda n: 1).sizes(folder)) == ["file"]


def test_sectors_that_were_not_written_are_zeros_and_synced_bytes_stay() -> None:
    """CORRECTNESS E3: a file may have its new size without its new bytes."""
    files, path = MemoryFiles(), Path("/d/file")
    descriptor = files.open(path, create=True)
    files.append(descriptor, (b"s" * 100,))
    files.sync(descriptor)
    files.sync_directory(path.parent)
    files.append(descriptor, (b"n" * 1_500,))
    counts: list[int] = []

    def first_and_last(count: int) -> list[int]:
        counts.append(count)
        return [0, count - 1]

    after = files.after_power_loss(lambda n: n, first_and_last)
    assert counts == [4]
    expected = b"s" * 100 + bytes(412) + b"n" * 1_024 + bytes(64)
    assert after.content(path) == expected
    assert files.content(path) == b"s" * 100 + b"n" * 1_500, "the machine that runs on has everything"


def test_a_misplaced_write_and_dropped_bytes_change_what_is_there() -> None:
    files, path = MemoryFiles(), Path("/d/file")
    descriptor = files.open(path, create=True)
    files.append(descriptor, (b"0123456789",))
    files.overwrite(path, 8, b"abcd")
    assert files.content(path) == b"01234567ab"
    assert files.after_power_loss(lambda n: n).content(path) == b"01234567ab"
    files.append(descriptor, (b"!",))
    files.drop_unsynced(path)
    assert files.content(path) == b"01234567ab"
    assert list(files.files()) == [path]
