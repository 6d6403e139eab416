"""Finds each partition's position independently of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from strandline.client.core.effects import Reset
from strandline.consumer.group.committed import Committed
from strandline.errors import LeaderNotAvailable, NotLeaderOrFollower, OffsetNotAvailable, StrandlineError
from strandline.ids import NO_BROKER, TopicPartition
from strandline.vocabulary.groups import CommittedOffset, FetchedOffsets
from strandline.vocabulary.log import ListedOffset, OffsetQuery
from tests.consumer.brokers import Parts, SlowClock
from tests.strandline.client.network import FastClock
from tests.waiting import eventually

A, B, C = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("t", 2)
GONE = TopicPartition("gone", 0)


def listed(query: OffsetQuery, error: StrandlineError | None = None) -> ListedOffset:
    return ListedOffset(query.name, error, 7, -1, 1, 9, 7, 9)


class Leaders(Parts):
    """Partition A has no leader, B is led by broker 1 and C by broker 2. A group where one is wanted."""

    def __init__(
        self,
        clock: FastClock | None = None,
        committed: dict[TopicPartition, CommittedOffset | None] | None = None,
    ) -> None:
        super().__init__(clock, offset_reset="earliest", request_timeout_ms=30_000)
        self.brokers.topics["t"] = 3
        self.brokers.leaders.update({A: NO_BROKER, B: 1, C: 2})
        self.answers: dict[str, Any] = {}
        self.brokers.answers["ListOffsets"] = self._list
        if committed is not None:
            self.brokers.answers["OffsetFetch"] = lambda request: FetchedOffsets(
                {name: committed.get(name) for name in request.partitions}
            )
            self.reader.finder.committed = Committed(self.coordinator, self.settings).fetch

    async def _list(self, queries: Sequence[OffsetQuery]) -> list[ListedOffset]:
        if any(query.name == C for query in queries):
            await self.hung.wait()
        return [listed(query) for query in queries]

    async def __aenter__(self) -> Any:
        self.hung = asyncio.Event()
        await super().__aenter__()
        self.reader.start()
        return self

    def position(self, name: TopicPartition) -> int | None:
        return self.reader.positions[name].position


@pytest.mark.parametrize("seek", [False, True], ids=["at the start", "on a reset"])
@pytest.mark.parametrize("other", [A, C, GONE], ids=["no leader", "a broker that hangs", "no topic"])
async def test_a_partition_that_cannot_be_asked_for_holds_up_no_other(
    other: TopicPartition, seek: bool
) -> None:
    """(G14) B has its position long before the other's time is up."""
    async with Leaders(SlowClock()) as parts:
        parts.reader.add([other, B])
        if seek:
            await eventually(lambda: parts.position(B) is not None, what="the first position")
            parts.reader.search([other, B], Reset.EARLIEST)
        await eventually(lambda: parts.position(B) is not None, what="a position")
        assert parts.position(B) == 7 and parts.position(other) is None
        assert parts.wakeups.error(other) is None


async def test_where_the_group_stands_holds_up_no_partition_without_a_committed_offset() -> None:
    """(G14) A's position needs no leader; B's is asked for at once, though C's broker hangs."""
    async with Leaders(SlowClock(), {A: CommittedOffset(3)}) as parts:
        parts.reader.add([A, B, C])
        await eventually(lambda: parts.position(B) is not None, what="a position")
        assert (parts.position(A), parts.position(B), parts.position(C)) == (3, 7, None)
        parts.hung.set()
        await eventually(lambda: parts.position(C) == 7, what="the last position")


async def test_an_error_is_noted_when_the_time_is_up_and_the_position_is_looked_for_still() -> None:
    """And the partition is found as soon as it has a leader, though another one is asked for just then."""
    async with Leaders() as parts:
        parts.reader.add([A, B, C])
        error = await eventually(lambda: parts.wakeups.error(A), what="the error")
        assert isinstance(error, LeaderNotAvailable) and "t-0" in error.message
        assert parts.wakeups.error(B) is None and parts.wakeups.error(C) is None
        parts.brokers.leaders[A] = 1
        parts.brokers.epoch += 1
        await parts.cluster.refresh(["t"])
        await eventually(lambda: parts.position(A) == 7, what="the position")
        assert parts.wakeups.error(A) is None


@pytest.mark.parametrize("error", [NotLeaderOrFollower("moved"), OffsetNotAvailable("not yet")])
async def test_a_retriable_refusal_of_one_lookup_is_retried_for_that_one(error: StrandlineError) -> None:
    async with Leaders() as parts:
        parts.brokers.leaders.update({A: 1, C: 1})
        asked: list[list[TopicPartition]] = []

        def answer(queries: Sequence[OffsetQuery]) -> list[ListedOffset]:
            asked.append([query.name for query in queries])
            refuse = len(asked) == 1
            return [listed(query, error if refuse and query.name == C else None) for query in queries]

        parts.brokers.answers["ListOffsets"] = answer
        parts.reader.add([A, B, C])
        await eventually(lambda: parts.position(C) == 7, what="the position")
        assert asked == [[A, B, C], [C]]
