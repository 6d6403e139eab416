"""A store of one task: what it holds, whose it is, and what becomes of what was begun before it closed."""

from __future__ import annotations

import errno
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.errors import StorageFailed
from strandline.ids import TopicId, TopicPartition
from strandline.streams.core.changelog import (
    CHANGELOG_START,
    LOCAL_PREFIX,
    POSITION_KEY,
    UnreadableState,
    state_key,
)
from strandline.streams.core.checkpoint import Checkpoint
from strandline.streams.core.positions import Positions
from strandline.streams.storage.errors import StoreClosed, StoreInUse
from strandline.streams.storage.task_store import TaskStore
from strandline.vocabulary.log_position import LogPosition
from tests.streams.storage.content import IDENTITY, check, content, fill

A, B, C = (state_key("counts", name) for name in (b"a", b"b", b"c"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "counts-3"


@pytest.fixture
def store(folder: Path) -> Iterator[TaskStore]:
    store = TaskStore.open(folder, IDENTITY)
    yield store
    store.close()


def test_a_store_has_the_records_applied_to_it(store: TaskStore) -> None:
    assert (store.checkpoint, store.get(A), content(store)) == (0, None, {})
    store.apply([(B, b"1"), (A, b"2"), (C, b"")], 3)
    store.apply([(A, None), (B, b"3"), (B, b"4")], 5)
    assert store.checkpoint == 5
    assert (store.get(A), store.get(B), store.get(C)) == (None, b"4", b"")
    assert list(store.range(CHANGELOG_START, None)) == [(B, b"4"), (C, b"")]


def test_a_reopened_store_has_its_content(folder: Path) -> None:
    fill(folder, iter(range(50)))
    store = TaskStore.open(folder, IDENTITY)
    assert store.checkpoint == 50
    check(store)
    store.close()


def test_a_range_excludes_its_end_and_is_a_snapshot_of_its_begin(store: TaskStore) -> None:
    store.apply([(A, b"1"), (B, b"2"), (C, b"3")], 1)
    rows = store.range(A, C)
    store.apply([(A, b"later"), (B, None)], 2)
    assert list(rows) == [(A, b"1"), (B, b"2")]
    assert list(store.range(A, C)) == [(A, b"later")]
    assert list(store.range(C, A)) == []


def test_a_checkpoint_continues_without_changes_and_never_goes_back(store: TaskStore) -> None:
    store.apply([], 7)
    store.apply([], 7)
    assert store.checkpoint == 7
    with pytest.raises(AssertionError, match="checkpoint 6 after 7"):
        store.apply([(A, b"1")], 6)
    assert store.get(A) is None


def test_no_key_of_a_changelog_is_taken_for_the_checkpoint(folder: Path) -> None:
    """Nor shows what a store notes for itself."""
    store = TaskStore.open(folder, IDENTITY)
    store.apply([(A, b"1")], 4)
    store.apply([(LOCAL_PREFIX + b"checkpoint", b"garbage"), (LOCAL_PREFIX + b"identity", None)], 5)
    store.close()
    store = TaskStore.open(folder, IDENTITY)
    assert store.checkpoint == 5
    assert list(store.range(b"", None)) == [(A, b"1")]
    assert list(store.range(b"", LOCAL_PREFIX + b"z")) == []
    store.close()


def test_positions_are_those_of_the_record(store: TaskStore) -> None:
    assert store.positions() == Positions()
    positions = Positions({TopicPartition("in", 3): LogPosition(17, TopicId("a" * 32), 5)})
    store.apply(positions.rows().items(), 1)
    assert store.positions() == positions
    store.apply([(POSITION_KEY, b"garbage")], 2)
    with pytest.raises(UnreadableState):
        store.positions()


def test_a_store_of_another_changelog_is_emptied_with_a_log_line(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A topic that is created again has another id, and what an offset says of the old one is wrong
    (CORRECTNESS S6)."""
    fill(folder, iter(range(5)))
    with caplog.at_level(logging.WARNING):
        store = TaskStore.open(folder, "ffff-3")
    assert (store.checkpoint, content(store)) == (0, {})
    assert "begins anew" in caplog.text and IDENTITY in caplog.text and "ffff-3" in caplog.text
    store.close()
    fill(folder, iter(range(5)))
    TaskStore.open(folder, IDENTITY).close()


def test_a_store_that_is_new_or_was_closed_empty_says_nothing(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        TaskStore.open(folder, IDENTITY).close()
        TaskStore.open(folder, IDENTITY).close()
    assert caplog.text == ""


def test_two_tasks_of_a_process_do_not_have_one_store(folder: Path, store: TaskStore) -> None:
    store.apply([(A, b"1")], 1)
    for identity in (IDENTITY, "of another changelog"):
        with pytest.raises(StoreInUse, match="another process or task"):
            TaskStore.open(folder, identity)
    assert store.get(A) == b"1"
    store.close()
    TaskStore.open(folder, IDENTITY).close()


def test_a_cleared_store_is_empty_and_continues(folder: Path, store: TaskStore) -> None:
    store.apply([(A, b"1"), (B, b"2")], 9)
    rows = store.range(A, None)
    assert next(rows) == (A, b"1")
    store.clear()
    assert (store.checkpoint, content(store)) == (0, {})
    with pytest.raises(StoreClosed, match="before the end of a range"):
        next(rows)
    with pytest.raises(StoreInUse):
        TaskStore.open(folder, IDENTITY)
    store.apply([(C, b"3")], 2)
    assert content(store) == {C: b"3"}


def test_a_closed_store_refuses_and_a_range_that_was_begun_does_not_hold_it(folder: Path) -> None:
    store = TaskStore.open(folder, IDENTITY)
    store.apply([(A, b"1"), (B, b"2")], 1)
    rows = store.range(A, None)
    assert next(rows) == (A, b"1")
    store.close()
    store.close()
    again = TaskStore.open(folder, IDENTITY)
    assert content(again) == {A: b"1", B: b"2"}
    again.close()
    for refused in (
        lambda: next(rows),
        lambda: store.get(A),
        lambda: store.range(A, None),
        lambda: store.apply([], 2),
    ):
        with pytest.raises(StoreClosed):
            refused()
    assert not (folder / "corrupt").exists()


def test_an_error_of_the_machine_is_no_damage(folder: Path) -> None:
    """The content stays, for when it has mended (CORRECTNESS S6)."""
    fill(folder, iter(range(50)))
    (database,) = folder.glob("db-*")
    database.rename(folder / "aside")
    database.symlink_to(database.name)
    with pytest.raises(StorageFailed, match=os.strerror(errno.ELOOP)):
        TaskStore.open(folder, IDENTITY)
    database.unlink()
    (folder / "aside").rename(database)
    store = TaskStore.open(folder, IDENTITY)
    check(store)
    assert store.checkpoint == 50
    store.close()


def test_a_folder_that_cannot_be_made_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageFailed, match="file"):
        TaskStore.open(tmp_path / "file" / "counts-3", IDENTITY)


def test_a_store_whose_checkpoint_cannot_be_written_is_closed_all_the_same(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its end is in the changelog; this process must be able to open it again."""
    store = TaskStore.open(folder, IDENTITY)
    store.apply([(A, b"1")], 1)
    shutil.rmtree(next(folder.glob("db-*")))
    with caplog.at_level(logging.WARNING):
        store.close()
    assert "what was in memory is lost" in caplog.text
    store = TaskStore.open(folder, IDENTITY)
    assert (store.checkpoint, content(store)) == (0, {})
    store.apply([(A, b"1")], 1)
    shutil.rmtree(next(folder.glob("db-*")))
    store.clear()
    store.apply([(B, b"2")], 1)
    assert content(store) == {B: b"2"}
    store.close()


def test_a_checkpoint_is_kept_with_its_log_and_its_age(tmp_path: Path) -> None:
    """CORRECTNESS S11, S12."""
    store = TaskStore.open(tmp_path, IDENTITY)
    assert store.kept == Checkpoint(0)
    store.apply([(A, b"1")], 7, 3, 1_000)
    store.apply([(A, b"2")], 9, 4)
    store.close()
    store = TaskStore.open(tmp_path, IDENTITY)
    assert store.kept == Checkpoint(9, 4, 1_000)
    store.clear()
    assert store.kept == Checkpoint(0)
    store.close()


def test_a_checkpoint_of_the_version_before_is_read(tmp_path: Path) -> None:
    """Its log and its age are not known."""
    store = TaskStore.open(tmp_path, IDENTITY)
    store.apply([(A, b"1")], 7, 3, 1_000)
    store._db.put(LOCAL_PREFIX + b"checkpoint", (7).to_bytes(8, "big"), store._no_log)
    store.close()
    store = TaskStore.open(tmp_path, IDENTITY)
    assert store.kept == Checkpoint(7) and store.get(A) == b"1"
    store.close()
