"""Writes of any size become batches that the log takes, or a typed error; never a broken log."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from strandline.broker.coordinators.appender import APPEND_BYTES_MAX, Appender
from strandline.broker.core.coordinators.effects import Append
from strandline.config.limits import RECORDS_BYTES_MAX
from strandline.errors import MessageTooLarge, NotLeaderOrFollower, StrandlineError
from strandline.ids import BrokerId
from strandline.records import decode, split
from strandline.vocabulary.topic_config import TopicConfig
from tests.broker.support.replicas import CLOCK, LIVE, Led, leading, open_replica, settings
from tests.waiting import eventually

Outcomes = list[tuple[int, StrandlineError | None]]


@asynccontextmanager
async def appending(
    *, bytes_max: int = RECORDS_BYTES_MAX, isr: tuple[int, ...] = (1,)
) -> AsyncIterator[tuple[Appender, Outcomes, Led]]:
    replica = open_replica(TopicConfig(min_insync_replicas=1, max_message_bytes=bytes_max))
    async with leading(replica, 5, isr=isr) as leader:
        outcomes: Outcomes = []
        appender = Appender(
            leader.leadership,
            CLOCK,
            lambda write_id, error: outcomes.append((write_id, error)),
            timeout_ms=settings().group_append_timeout_ms,
            waiting_max=settings().commit_queue_entries_max,
        )
        yield appender, outcomes, leader


def written(leader: Led) -> list[tuple[int, list[bytes | None]]]:
    """The batches in the log: codec, and values."""
    log = leader.replica.log
    found: list[tuple[int, list[bytes | None]]] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data, offset = log.read_range(offset, 1 << 20, below=log.log_end_offset)
        for header in split(data):
            batch = data[header.position : header.end]
            found.append((header.codec, [record.value for record in decode(batch)]))
    return found


async def test_writes_that_do_not_fit_together_become_several_batches_in_order() -> None:
    async with appending(bytes_max=2_000) as (appender, outcomes, leader):
        for number in range(10):
            appender.add(Append(number, ((b"k", bytes([number]) * 700),)))
        assert not outcomes  # never before `add` has returned
        await eventually(lambda: len(outcomes) == 10)
        assert outcomes == [(number, None) for number in range(10)]
        assert [len(values) for _, values in written(leader)] == [2] * 5
        assert [value for _, values in written(leader) for value in values] == [
            bytes([number]) * 700 for number in range(10)
        ]


async def test_a_write_larger_than_a_batch_is_compressed_into_one() -> None:
    """One write is one batch: a generation is never half in the log."""
    async with appending() as (appender, outcomes, leader):
        appender.add(Append(1, tuple((b"k%d" % n, b"v" * 1_000) for n in range(2_000))))
        await eventually(lambda: outcomes)
        assert outcomes == [(1, None)]
        ((codec, values),) = written(leader)
        assert (codec, len(values)) == (4, 2_000)


@pytest.mark.parametrize(
    "value", [os.urandom(2 * RECORDS_BYTES_MAX), b"v" * (APPEND_BYTES_MAX + 1)], ids=["noise", "bound"]
)
async def test_a_write_that_fits_into_no_batch_is_refused_alone(value: bytes) -> None:
    """The error names the bound, and nothing of the write is in the log."""
    async with appending() as (appender, outcomes, leader):
        appender.add(Append(1, ((b"k", b"before"),)))
        appender.add(Append(2, ((b"k", value),)))
        appender.add(Append(3, ((b"k", b"after"),)))
        await eventually(lambda: len(outcomes) == 3)
        (_, first), (second_id, second), (_, third) = outcomes
        assert (first, second_id, third) == (None, 2, None)
        assert isinstance(second, MessageTooLarge) and second.limit
        assert [value for _, values in written(leader) for value in values] == [b"before", b"after"]


async def test_a_tombstone_is_written_as_one() -> None:
    async with appending() as (appender, outcomes, leader):
        appender.add(Append(1, ((b"k", None),)))
        await eventually(lambda: outcomes)
        assert written(leader) == [(0, [None])]


async def test_while_leadership_is_handed_over_nothing_is_written() -> None:
    async with appending() as (appender, outcomes, leader):
        leader.leadership.draining = True
        appender.add(Append(1, ((b"k", b"v"),)))
        await eventually(lambda: outcomes)
        assert isinstance(outcomes[0][1], NotLeaderOrFollower)
        assert written(leader) == []


async def test_a_closed_appender_reports_nothing_more() -> None:
    """CORRECTNESS H6: the epoch is over; what is under way counts for nothing here."""
    async with appending(isr=(1, 2)) as (appender, outcomes, leader):
        appender.add(Append(1, ((b"k", b"v"),)))
        await eventually(lambda: leader.replica.log.log_end_offset == 1)
        appender.add(Append(2, ((b"k", b"v"),)))
        appender.close()
        second = LIVE[BrokerId(2)]
        leader.leadership.fetched(second.id, second.epoch, 1, subscription=1)
        leader.leadership.turn()
        await eventually(lambda: leader.replica.high_watermark == 1)
        for _ in range(10):
            await asyncio.sleep(0)
        assert outcomes == []
        assert [values for _, values in written(leader)] == [[b"v"]]
