"""What a new leader answers to clients while it does not know the high watermark (CORRECTNESS H1)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.cluster_view import ClusterView
from broker.handlers import EARLIEST, LATEST, FetchPartition, Handlers
from strandline.errors import OffsetNotAvailable
from strandline.ids import BrokerId, Offset
from strandline.records import decode
from tests.broker.replicas import CLOCK, LIVE, NAME, settings, write
from tests.broker.seat import Seat, seated

COMMITTED, WITHHELD = ("a", "b"), ("c",)
FIRST_MS, FUTURE_MS = 0, 1 << 42


@pytest.fixture
async def seat(tmp_path: Path) -> AsyncIterator[Seat]:
    """Broker 2 leads, and knows that two of its three records are committed; nobody follows it yet."""
    async with seated(tmp_path) as found:
        write(found.replica, 4, *COMMITTED, *WITHHELD)
        found.replica.raise_watermark(Offset(len(COMMITTED)))
        found.lead(5)
        yield found


@pytest.fixture
def handlers(seat: Seat) -> Handlers:
    view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
    return Handlers(seat.manager, view, settings(), CLOCK, lambda: True)


async def test_the_start_of_the_log_and_what_is_below_the_leaders_own_watermark_are_told(
    handlers: Handlers,
) -> None:
    """CORRECTNESS H1, H5: below min.insync.replicas the HW may stand still for days; what is known to be
    committed is read all the same, from EARLIEST, from a time, and by offset."""
    for asked in (EARLIEST, FIRST_MS):
        listed = handlers.list_offset(NAME, asked)
        assert (listed.error, listed.offset, listed.high_watermark) == (None, 0, -1)
    (fetched,) = await handlers.fetch(
        [FetchPartition(NAME, 0, 5, 1 << 20)], wait_ms=0, bytes_min=1, bytes_max=1 << 20
    )
    found = [(record.value or b"").decode() for record in decode(fetched.records, from_offset=0)]
    assert (found, fetched.high_watermark) == ([*COMMITTED], -1)


@pytest.mark.parametrize("asked", [LATEST, FUTURE_MS], ids=["latest", "a time that no known record has"])
async def test_what_depends_on_the_watermark_is_refused_until_it_is_known(
    seat: Seat, handlers: Handlers, asked: int
) -> None:
    """CORRECTNESS H1: the predecessor may have told a larger end; no answer is ever a smaller one."""
    assert isinstance(handlers.list_offset(NAME, asked).error, OffsetNotAvailable)
    (fetched,) = await handlers.fetch(
        [FetchPartition(NAME, 2, 5, 1 << 20)], wait_ms=0, bytes_min=1, bytes_max=1 << 20
    )
    assert (fetched.error, fetched.records, fetched.high_watermark) == (None, b"", -1)
    leadership = seat.replica.leadership
    assert leadership is not None
    for follower in (BrokerId(1), BrokerId(3)):
        leadership.fetched(follower, LIVE[follower].epoch, 3, subscription=1)
    leadership.turn()
    listed = handlers.list_offset(NAME, asked)
    assert (listed.error, listed.offset, listed.high_watermark) == (None, 3 if asked == LATEST else -1, 3)
