"""The first frame of a stream: which call it is, of which member, and what its caller proves.

It is JSON, so that a member of any version can read it, and ignores what it does not know.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from strandline.adapters.framed.frames import FRAMES
from strandline.adapters.rpc.request_parsing import MalformedRequest

OPENING_BYTES_MAX: Final = 4 * 1024


@dataclass(frozen=True, slots=True)
class Opening:
    """`path` as that of a `Method`. `member_key` None: the caller shows none."""

    path: str
    member_key: bytes | None
    member: int | None = None
    """The broker that the caller means; None: one of a version before did not say."""

    def __repr__(self) -> str:
        return f"Opening({self.path!r})"  # the key is a secret


def dump_opening(opening: Opening) -> bytes:
    key = opening.member_key
    shown = None if key is None else key.hex()
    return json.dumps({"call": opening.path, "key": shown, "member": opening.member}).encode()


def load_opening(data: bytes) -> Opening:
    """Raises MalformedRequest."""
    try:
        raw = json.loads(data)
        path, key, member = raw["call"], raw["key"], raw.get("member")
        if not isinstance(path, str) or not isinstance(member, int | None):
            raise TypeError(f"{type(path).__name__}, {type(member).__name__}")
        return Opening(path, None if key is None else bytes.fromhex(key), member)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise MalformedRequest(f"{len(data)} bytes that open no stream", kind=FRAMES) from None
