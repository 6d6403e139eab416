"""The keys of a changelog. The local store has the same keys, so a restore copies bytes without decoding
them.

A changelog is compacted, so it keeps the last value of each key: of every key of every store of the task, and
of one position record, which has the input positions that belong to those values, with a second one that says
which logs these are positions in. The first byte is the kind of key; `LOCAL_PREFIX` is reserved for a store's
own records.
"""

from __future__ import annotations

from typing import Final

from strandline.errors import InvalidRecord

LOCAL_PREFIX: Final = b"\x00"
"""No key of a changelog begins with it, and all of them sort after it."""
CHANGELOG_START: Final = b"\x01"
POSITION_KEY: Final = b"\x01"
LOGS_KEY: Final = POSITION_KEY + b"\x01"
"""Members of versions that do not know it keep its record, and do not read it."""
_STATE_PREFIX: Final = b"\x02"

STORE_NAME_BYTES_MAX: Final = 255
"""The longest store name in UTF-8: its length is stored in one byte."""


class UnreadableState(InvalidRecord):
    """A position record or an origin that is invalid, or that another version wrote."""


def store_prefix(store: str) -> bytes:
    """The prefix of this store's keys, and of no other store's.

    Raises ValueError if the name is longer than `STORE_NAME_BYTES_MAX`.
    """
    name = store.encode()
    if len(name) > STORE_NAME_BYTES_MAX:
        raise ValueError(f"store {store[:32]!r}… has {len(name)} bytes, at most {STORE_NAME_BYTES_MAX} fit")
    return _STATE_PREFIX + bytes((len(name),)) + name


def store_end(store: str) -> bytes:
    """The smallest key after all keys of this store; it is not one of its keys."""
    prefix = store_prefix(store)
    if prefix[-1] == STORE_NAME_BYTES_MAX:
        raise AssertionError(f"{prefix!r} ends as no UTF-8 does")
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def state_key(store: str, key: bytes) -> bytes:
    """The key of a store's entry. Keys of one store keep their order."""
    return store_prefix(store) + key
