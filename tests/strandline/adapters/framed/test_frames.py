"""Frames are cut from the bytes of a connection, however these arrive."""

from __future__ import annotations

from random import Random

import pytest

from strandline.adapters.framed.frames import SHARED_BYTES, Frame, Frames, Kind, head
from strandline.adapters.framed.opening import Opening, dump_opening, load_opening
from strandline.errors import InvalidRequest

BYTES_MAX = 1 << 20
SIZES = [0, 1, 100, SHARED_BYTES - 6, SHARED_BYTES - 5, SHARED_BYTES - 4, SHARED_BYTES, BYTES_MAX, 7, 0]
FRAMES: list[Frame] = [(Kind.MESSAGE, Random(size).randbytes(size)) for size in SIZES] + [(Kind.END, b"")]


def received(frames: Frames, data: bytes, piece: int) -> list[Frame]:
    """What comes out if at most `piece` bytes arrive at a time."""
    found: list[Frame] = []
    while data:
        room = frames.room()
        assert room.nbytes, "nothing more could arrive"
        count = min(piece, room.nbytes, len(data))
        room[:count] = data[:count]
        data = data[count:]
        found += [(kind, bytes(each)) for kind, each in frames.filled(count)]
    return found


@pytest.mark.parametrize("piece", [1_000, 4_099, SHARED_BYTES, 10 * BYTES_MAX])
def test_frames_are_whole_however_they_arrive(piece: int) -> None:
    sent = b"".join(head(kind, len(data)) + data for kind, data in FRAMES)
    assert received(Frames(BYTES_MAX), sent, piece) == FRAMES


def test_frames_may_be_larger_once_it_is_allowed_and_nothing_that_arrived_is_lost() -> None:
    frames, small = Frames(20), head(Kind.MESSAGE, 20) + bytes(20)
    assert received(frames, small + small[:10], 100) == [(Kind.MESSAGE, bytes(20))]
    assert frames.room().nbytes < 20, "memory for what is allowed, not more"
    frames.allow(BYTES_MAX)
    rest = small[10:] + head(Kind.MESSAGE, BYTES_MAX) + bytes(BYTES_MAX)
    assert [len(data) for _, data in received(frames, rest, SHARED_BYTES)] == [20, BYTES_MAX]


def test_small_frames_may_arrive_byte_by_byte() -> None:
    sent = b"".join(head(Kind.MESSAGE, size) + bytes(size) for size in (0, 3, 0, 20))
    assert [len(data) for _, data in received(Frames(20), sent, 1)] == [0, 3, 0, 20]


@pytest.mark.parametrize("first", [head(Kind.MESSAGE, 101), b"\x00\x00\x00\x00\x01", b"PRI * HTTP/2.0"])
def test_a_frame_that_is_too_large_or_of_no_kind_is_refused_by_its_head(first: bytes) -> None:
    with pytest.raises(InvalidRequest, match=r"101 bytes; 100 are allowed|no member of a cluster"):
        received(Frames(100), first, len(first))


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b'{"call": 1, "key": null}', b'{"call": "/a", "key": "no"}', b"[" * 4_000],
)
def test_bytes_that_open_no_stream_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match=f"{len(data)} bytes that open no stream"):
        load_opening(data)


@pytest.mark.parametrize("key", [None, b"", b"\x00\xff"])
def test_an_opening_is_read_as_it_was_written_and_keeps_its_key_to_itself(key: bytes | None) -> None:
    opening = Opening("/strandline.v1.Replication/ReplicaFetch", key)
    assert load_opening(dump_opening(opening)) == opening
    assert "key" not in repr(opening)
