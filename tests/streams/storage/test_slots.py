"""Members of one machine with the same state_dir: a slot for each, for life, and free again after it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from strandline.errors import SettingsError
from strandline.streams.core.task import TaskId
from strandline.streams.storage.errors import StoreInUse
from strandline.streams.storage.slots import StateFolder
from strandline.streams.storage.task_store import TaskStore

TAKE = """
import sys
from pathlib import Path
from strandline.streams.storage.slots import StateFolder
folder = StateFolder.take(Path(sys.argv[1]), "counting")
print(folder.path.name, flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(state_dir: Path) -> Iterator[str]:
    """The slot that a process took. It is killed at the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-c", TAKE, str(state_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            os.kill(process.pid, signal.SIGKILL)


def test_processes_with_one_state_dir_have_different_slots(tmp_path: Path) -> None:
    with another_process(tmp_path) as first, another_process(tmp_path) as second:
        assert (first, second) == ("slot-0", "slot-1")


def test_a_killed_process_frees_its_slot(tmp_path: Path) -> None:
    """A restarted process finds its former slot, even if another one is still running."""
    with ExitStack() as others:
        with another_process(tmp_path) as first:
            others.enter_context(another_process(tmp_path))
            assert first == "slot-0"
        folder = StateFolder.take(tmp_path, "counting")
        assert folder.path.name == "slot-0"
        folder.close()


def test_members_of_one_process_have_different_slots_until_they_close_them(tmp_path: Path) -> None:
    first, second = StateFolder.take(tmp_path, "counting"), StateFolder.take(tmp_path, "counting")
    assert first.path != second.path
    first.close()
    first.close()
    third = StateFolder.take(tmp_path, "counting")
    assert third.path == first.path
    third.close()
    second.close()


def test_applications_do_not_share_slots(tmp_path: Path) -> None:
    one, other = StateFolder.take(tmp_path, "counting"), StateFolder.take(tmp_path, "adding")
    assert (one.path, other.path) == (tmp_path / "counting" / "slot-0", tmp_path / "adding" / "slot-0")
    one.close()
    other.close()


def test_a_slot_keeps_the_stores_of_its_tasks(tmp_path: Path) -> None:
    folder = StateFolder.take(tmp_path, "counting")
    store = TaskStore.open(folder.of(TaskId("words", 3)), "id-3")
    store.apply([(b"\x02k", b"v")], 1)
    store.close()
    folder.close()
    folder = StateFolder.take(tmp_path, "counting")
    store = TaskStore.open(folder.of(TaskId("words", 3)), "id-3")
    assert store.checkpoint == 1
    assert folder.of(TaskId("words", 3)) == folder.path / "words-3"
    store.close()
    folder.close()


def test_members_whose_folder_is_removed_under_them_never_share_a_store(tmp_path: Path) -> None:
    """The first one has lost its slot to the next one, and takes another for what it opens from then on; what
    it has open goes on beside it."""
    task, other = TaskId("words", 3), TaskId("words", 4)
    first = StateFolder.take(tmp_path, "counting")
    open_before = first.open(task, "id-3")
    shutil.rmtree(tmp_path)
    second = StateFolder.take(tmp_path, "counting")
    assert second.path == first.path
    stores = [second.open(task, "id-3"), first.open(other, "id-4"), second.open(other, "id-4")]
    for number, store in enumerate(stores):
        store.apply([(b"\x02k", b"%d" % number)], 1)
    open_before.apply([(b"\x02k", b"before")], 7)
    open_before.close()
    assert [store.get(b"\x02k") for store in stores] == [b"0", b"1", b"2"]
    assert first.path.name == "slot-1"
    for store in stores:
        store.close()
    again = second.open(task, "id-3")
    assert (again.checkpoint, again.get(b"\x02k")) == (1, b"0")
    again.close()
    first.close()
    second.close()


def test_a_store_is_removed_unless_it_is_open(tmp_path: Path) -> None:
    task, other = TaskId("words", 3), TaskId("words", 4)
    folder = StateFolder.take(tmp_path, "counting")
    store = folder.open(task, "id-3")
    store.apply([(b"\x02k", b"v")], 1)
    folder.open(other, "id-4").close()
    assert folder.kept() == [task, other]
    with pytest.raises(StoreInUse):
        folder.remove(task)
    assert store.get(b"\x02k") == b"v"
    store.close()
    free = folder.remove(task)
    store = folder.open(task, "id-3")
    assert store.checkpoint == 0
    store.close()
    free()
    assert folder.kept() == [task, other]
    assert sorted(path.name for path in folder.path.iterdir()) == ["lock", "words-3", "words-4"]
    folder.close()


def test_the_database_of_a_copied_folder_or_of_the_version_before_is_taken_over(tmp_path: Path) -> None:
    folder = StateFolder.take(tmp_path, "counting")
    store = folder.open(TaskId("words", 3), "id-3")
    store.apply([(b"\x02k", b"v")], 7)
    store.close()
    (database,) = store.folder.glob("db-*")
    database.rename(store.folder / "db")
    store = folder.open(TaskId("words", 3), "id-3")
    assert (store.checkpoint, store.get(b"\x02k")) == (7, b"v")
    store.close()
    folder.close()


@pytest.mark.parametrize("application_id", ["", "..", "a/b", "a b"])
def test_an_application_id_that_no_folder_can_have_is_refused(tmp_path: Path, application_id: str) -> None:
    with pytest.raises(SettingsError, match="setting application_id"):
        StateFolder.take(tmp_path, application_id)
    assert list(tmp_path.iterdir()) == []


def test_a_state_dir_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"setting state_dir = .*file"):
        StateFolder.take(tmp_path / "file", "counting")
