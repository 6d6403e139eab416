"""The test's writes to a store: batches whose content follows from the checkpoint alone.

Batch `n` ends at checkpoint `n + 1`. It changes some keys and deletes another one, and counts.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from strandline.streams.core.changelog import CHANGELOG_START, state_key
from strandline.streams.storage.stores import Change
from strandline.streams.storage.task_store import TaskStore

IDENTITY = "0123456789abcdef0123456789abcdef-3"
COUNT = state_key("counts", b"batches")
KEYS = 60


def batch(number: int, value_bytes: int = 40) -> list[Change]:
    """The changes of batch `number`."""
    value = random.Random(number).randbytes(value_bytes)
    return [
        *((state_key("counts", b"%04d" % (number * 7 % KEYS + 3 * i)), value) for i in range(5)),
        (state_key("counts", b"%04d" % (number * 11 % KEYS)), None),
        (COUNT, b"%d" % (number + 1)),
    ]


@cache
def expected(checkpoint: int, value_bytes: int = 40) -> dict[bytes, bytes]:
    """All that a store has after that many batches."""
    content: dict[bytes, bytes] = {}
    for number in range(checkpoint):
        for key, value in batch(number, value_bytes):
            if value is None:
                content.pop(key, None)
            else:
                content[key] = value
    return content


def content(store: TaskStore) -> dict[bytes, bytes]:
    return dict(store.range(CHANGELOG_START, None))


def check(store: TaskStore, value_bytes: int = 40) -> None:
    """The store matches its checkpoint in every kind of read. May raise StoreCorrupt."""
    wanted = expected(store.checkpoint, value_bytes)
    assert content(store) == wanted, f"the range differs at checkpoint {store.checkpoint}"
    for key, value in wanted.items():
        assert store.get(key) == value
    for number in range(KEYS):
        key = state_key("counts", b"%04d" % number)
        assert store.get(key) == wanted.get(key)


def fill(folder: Path, batches: Iterator[int], value_bytes: int = 40) -> None:
    """Apply these, and close."""
    store = TaskStore.open(folder, IDENTITY)
    try:
        for number in batches:
            store.apply(batch(number, value_bytes), number + 1)
    finally:
        store.close()
