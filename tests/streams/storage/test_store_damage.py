"""Files of a store that are damaged, in each way and each file: it has what it had at some time, or nothing,
or says that it is damaged and has nothing the next time; it never has anything else (CORRECTNESS S6)."""

from __future__ import annotations

import logging
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.streams.core.changelog import CHANGELOG_START
from strandline.streams.storage.errors import StoreCorrupt
from strandline.streams.storage.task_store import TaskStore
from tests.streams.storage.content import IDENTITY, check, content, fill

BATCHES = 120
VALUE_BYTES = 400
"""So each file of data has some blocks, and its damage is read later than at open."""
BEGINS_ANEW = "begins anew: "
IS_EMPTY = "is empty: "


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with some files of data."""
    folder = tmp_path_factory.mktemp("damage") / "whole"
    for first in range(0, BATCHES, 20):
        fill(folder, iter(range(first, first + 20)), VALUE_BYTES)
    assert len(list(folder.glob("db-*/*.sst"))) > 1
    return folder


def flip(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    # The end of a file of data has its index and footer, which are few bytes of many.
    position = draw.choice([draw.randrange(len(data)), len(data) - 1 - draw.randrange(min(len(data), 1_000))])
    data[position] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def cut(path: Path, draw: random.Random) -> None:
    os.truncate(path, draw.randrange(path.stat().st_size))


def delete(path: Path, draw: random.Random) -> None:
    path.unlink()


def fill_with_zeros(path: Path, draw: random.Random) -> None:
    path.write_bytes(bytes(path.stat().st_size))


Damage = Callable[[Path, random.Random], None]


def damages(whole: Path, draw: random.Random) -> Iterator[tuple[str, Damage]]:
    """Each file with each damage, some of them several times."""
    for path in sorted(whole.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(whole))
            yield name, delete
            if path.stat().st_size:
                yield name, fill_with_zeros
                matters = path.suffix == ".sst" or "MANIFEST" in name
                for _ in range(4 if matters else 1):
                    yield name, cut
                for _ in range(12 if matters else 2):
                    yield name, flip


def look(folder: Path) -> int | None:
    """The checkpoint of what is there and is right; None: it says that it is damaged."""
    store = TaskStore.open(folder, IDENTITY)
    try:
        check(store, VALUE_BYTES)
        return store.checkpoint
    except StoreCorrupt:
        return None
    finally:
        store.close()


@pytest.mark.timeout(180)
def test_a_damaged_store_never_has_records_that_were_not_written(
    whole: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    draw = random.Random(6)
    seen: Counter[str] = Counter()
    for number, (name, damage) in enumerate(damages(whole, draw)):
        folder = tmp_path / str(number)
        shutil.copytree(whole, folder)
        damage(folder / name, draw)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            found = look(folder)
        text = caplog.text
        if found is None:
            assert look(folder) == 0, f"{name} {damage.__name__}: it is as it was, and has damage"
            seen["damage was read"] += 1
        elif found == 0:
            assert BEGINS_ANEW in text or IS_EMPTY in text, f"{name} {damage.__name__}"
            seen["empty"] += 1
        else:
            seen["content"] += 1
        if number % 8 == 0:
            fill(folder, iter(range(found or 0, BATCHES)), VALUE_BYTES)
            assert look(folder) == BATCHES, f"{name} {damage.__name__}: it cannot be restored"
        shutil.rmtree(folder)
    assert min(seen["damage was read"], seen["empty"], seen["content"]) >= 3, seen


def test_a_store_that_met_damage_is_rebuilt_though_the_damage_is_gone(whole: Path, tmp_path: Path) -> None:
    """A process that met damage has emptied the store; the next one does not find it half way."""
    folder = tmp_path / "store"
    shutil.copytree(whole, folder)
    (folder / "corrupt").touch()
    store = TaskStore.open(folder, IDENTITY)
    assert (store.checkpoint, content(store)) == (0, {})
    assert not (folder / "corrupt").exists()
    store.close()


def test_a_range_comes_to_damage_with_an_error_and_not_as_if_nothing_followed(tmp_path: Path) -> None:
    """RocksDB's own iterator of pairs just ends there."""
    fill(tmp_path, iter(range(30)), value_bytes=1_000)
    (path,) = tmp_path.glob("db-*/*.sst")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    store = TaskStore.open(tmp_path, IDENTITY)
    assert store.checkpoint == 30
    rows = store.range(CHANGELOG_START, None)
    assert next(rows)
    with pytest.raises(StoreCorrupt, match="checksum mismatch"):
        list(rows)
    store.close()
    store = TaskStore.open(tmp_path, IDENTITY)
    assert (store.checkpoint, content(store)) == (0, {})
    store.close()
