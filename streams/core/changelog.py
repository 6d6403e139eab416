"""The keys of a changelog, which are also those of the local store: a restore copies bytes and reads none.

A changelog is compacted, so it keeps the last value of each key: of every key of every store of the task,
and of one position record, that says how far the inputs were read when those values were as they are.
The first byte tells what a key is of; `LOCAL_PREFIX` is left to what a store notes for itself.
"""

from __future__ import annotations

from typing import Final

from strandline.errors import InvalidRecord

LOCAL_PREFIX: Final = b"\x00"
"""No key of a changelog begins so, and all of them lie behind it."""
CHANGELOG_START: Final = b"\x01"
POSITION_KEY: Final = b"\x01"
_STATE_PREFIX: Final = b"\x02"

STORE_NAME_BYTES_MAX: Final = 255
"""Of a store's name in UTF-8: its length goes into a byte."""


class UnreadableState(InvalidRecord):
    """A position record or an origin that says nothing, or that another version wrote."""


def store_prefix(store: str) -> bytes:
    """What the keys of this store begin with, and those of no other one.

    Raises ValueError if the name is longer than `STORE_NAME_BYTES_MAX`.
    """
    name = store.encode()
    if len(name) > STORE_NAME_BYTES_MAX:
        raise ValueError(f"store {store[:32]!r}… has {len(name)} bytes, at most {STORE_NAME_BYTES_MAX} fit")
    return _STATE_PREFIX + bytes((len(name),)) + name


def store_end(store: str) -> bytes:
    """The least key that lies behind all keys of this store. It is not one of its keys."""
    prefix = store_prefix(store)
    if prefix[-1] == STORE_NAME_BYTES_MAX:
        raise AssertionError(f"{prefix!r} ends as no UTF-8 does")
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def state_key(store: str, key: bytes) -> bytes:
    """The key of a store's entry. Keys of one store keep their order."""
    return store_prefix(store) + key
