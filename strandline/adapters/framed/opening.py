"""The first frame of a stream: which call it is, and what its caller proves.

It is JSON, so that a member of any version can read it, and ignores what it does not know.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from strandline.errors import InvalidRequest

OPENING_BYTES_MAX: Final = 4 * 1024


@dataclass(frozen=True, slots=True)
class Opening:
    """`path` as that of a `Method`. `member_key` None: the caller shows none."""

    path: str
    member_key: bytes | None

    def __repr__(self) -> str:
        return f"Opening({self.path!r})"  # the key is a secret


def dump_opening(opening: Opening) -> bytes:
    key = opening.member_key
    return json.dumps({"call": opening.path, "key": None if key is None else key.hex()}).encode()


def load_opening(data: bytes) -> Opening:
    """Raises InvalidRequest."""
    try:
        raw = json.loads(data)
        path, key = raw["call"], raw["key"]
        if not isinstance(path, str):
            raise TypeError(type(path).__name__)
        return Opening(path, None if key is None else bytes.fromhex(key))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InvalidRequest(f"{len(data)} bytes that open no stream") from None
