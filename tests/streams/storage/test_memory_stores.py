"""The stores in memory behave like those on disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from strandline.streams.core.changelog import state_key
from strandline.streams.core.positions import Positions
from strandline.streams.core.task import TaskId
from strandline.streams.storage.errors import StoreClosed, StoreInUse
from strandline.streams.storage.memory_stores import MemoryDisk
from strandline.streams.storage.slots import StateFolder
from strandline.streams.storage.stores import OpenStores

TASK = TaskId("words", 3)
A, B, C = (state_key("counts", key) for key in (b"a", b"b", b"c"))


@pytest.fixture(params=["disk", "memory"])
def open_stores(request: pytest.FixtureRequest) -> Iterator[OpenStores]:
    yield StateFolder.take if request.param == "disk" else MemoryDisk().open


def test_a_store_keeps_its_rows_and_its_checkpoint(open_stores: OpenStores, tmp_path: Path) -> None:
    stores = open_stores(tmp_path, "counting")
    store = stores.open(TASK, "id-3")
    assert (store.checkpoint, store.get(A), store.positions()) == (0, None, Positions())
    store.apply([(A, b"1"), (C, b"3"), (B, b"2"), (C, None), *Positions().rows().items()], 7)
    assert (store.get(A), store.get(C), store.positions()) == (b"1", None, Positions())
    assert list(store.range(A, C)) == [(A, b"1"), (B, b"2")]
    with pytest.raises(StoreInUse):
        stores.open(TASK, "id-3")
    store.close()
    stores.close()
    again = open_stores(tmp_path, "counting").open(TASK, "id-3")
    assert (again.checkpoint, again.get(B)) == (7, b"2")
    again.close()


def test_a_store_of_another_changelog_is_emptied(open_stores: OpenStores, tmp_path: Path) -> None:
    stores = open_stores(tmp_path, "counting")
    store = stores.open(TASK, "id-3")
    store.apply([(A, b"1")], 7)
    store.close()
    store = stores.open(TASK, "id-4")
    assert (store.checkpoint, store.get(A)) == (0, None)
    store.close()
    stores.close()


def test_a_range_is_a_snapshot_that_ends_with_the_store(open_stores: OpenStores, tmp_path: Path) -> None:
    stores = open_stores(tmp_path, "counting")
    store = stores.open(TASK, "id-3")
    store.apply([(A, b"1"), (B, b"2")], 1)
    rows, cut = store.range(A, None), store.range(A, None)
    store.apply([(B, None), (C, b"3")], 2)
    assert list(rows) == [(A, b"1"), (B, b"2")]
    assert next(cut) == (A, b"1")
    store.clear()
    with pytest.raises(StoreClosed):
        next(cut)
    assert (store.checkpoint, list(store.range(A, None))) == (0, [])
    store.close()
    with pytest.raises(StoreClosed):
        store.get(A)
    stores.close()


def test_the_stores_of_a_dead_member_keep_their_rows_and_can_be_opened_again(tmp_path: Path) -> None:
    disk = MemoryDisk()
    store = disk.open(tmp_path, "counting").open(TASK, "id-3")
    store.apply([(A, b"1")], 7)
    disk.process_ended()
    with pytest.raises(StoreClosed):
        store.get(A)
    again = disk.open(tmp_path, "counting").open(TASK, "id-3")
    assert (again.checkpoint, again.get(A)) == (7, b"1")
