"""Offsets of a consumer that is assigned by hand outlive its idleness; those of others are left alone."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.consumer.consumer import Consumer
from strandline.consumer.group.commits import Identity
from strandline.consumer.group.committed import Committed
from strandline.consumer.group.refresh import Refresh
from strandline.errors import CoordinatorNotAvailable
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import CommittedOffset, FetchedOffsets, OffsetCommit, OffsetFetch
from tests.broker.core.groups.support.stage import LIMITS, Stage
from tests.consumer.brokers import Brokers
from tests.consumer.group.test_commits import Group
from tests.strandline.client.network import FastClock, memory_host
from tests.waiting import eventually

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Idle(Group):
    """A consumer outside the group that keeps its offsets, and a coordinator with what the test stores."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.identity = Identity()
        self.stored: dict[TopicPartition, CommittedOffset] = {}
        self.brokers.answers["OffsetFetch"] = lambda request: FetchedOffsets(
            {n: self.stored.get(n) for n in request.partitions}
        )
        committed = Committed(self.coordinator, self.settings)
        self.refresh = Refresh(
            self.commits, committed, reader=self.reader, settings=self.settings, clock=self.clock
        )

    async def commit(self, **offsets: int) -> None:
        """Have the consumer commit these, and the coordinator store them."""
        wanted = {{"a": A, "b": B}[name]: offset for name, offset in offsets.items()}
        self.assign(*wanted)
        await self.commits.commit(wanted)
        self.stored |= {name: CommittedOffset(offset) for name, offset in wanted.items()}
        self.sent.clear()


async def test_offsets_that_this_consumer_committed_are_committed_again_unchanged() -> None:
    async with Idle() as idle:
        await idle.commit(a=3, b=5)
        idle.stored[A] = CommittedOffset(3, 7, "metadata")
        await idle.refresh.once()
        (sent,) = idle.sent
        assert sent.offsets == {A: CommittedOffset(3, 7, "metadata"), B: CommittedOffset(5)}
        assert (sent.member, sent.generation) == ("", -1)


async def test_offsets_that_another_client_changed_since_are_not_refreshed() -> None:
    """(G15) `group reset-offsets`, another reader of the partition, or the end of the topic."""
    async with Idle() as idle:
        await idle.commit(a=3, b=5)
        idle.stored[A] = CommittedOffset(0)
        del idle.stored[B]
        await idle.refresh.once()
        assert idle.sent == []


async def test_partitions_without_a_commit_are_not_refreshed() -> None:
    async with Idle() as idle:
        idle.assign(A)
        await idle.refresh.once()
        assert idle.brokers.asked == []


@pytest.mark.parametrize("when", ["before it asks", "while it asks"])
async def test_a_subscribed_consumer_commits_nothing_again(when: str) -> None:
    """Its group has members, so its offsets do not expire."""
    async with Idle() as idle:
        await idle.commit(a=3)
        if when == "before it asks":
            idle.reader.subscribed = True

        def answer(request: OffsetFetch) -> FetchedOffsets:
            idle.identity = Identity("m", 1)
            return FetchedOffsets(idle.stored)

        idle.brokers.answers["OffsetFetch"] = answer
        await idle.refresh.once()
        assert idle.sent == []


async def test_an_offset_that_moves_meanwhile_is_not_set_back() -> None:
    async with Idle() as idle:
        await idle.commit(a=3)

        async def answer(request: OffsetFetch) -> FetchedOffsets:
            before = FetchedOffsets(idle.stored)
            await idle.commits.commit({A: 4})
            return before

        idle.brokers.answers["OffsetFetch"] = answer
        await idle.refresh.once()
        assert idle.offsets() == [{A: 4}]


async def test_a_coordinator_that_says_nothing_of_it_is_an_error() -> None:
    async with Idle() as idle:
        await idle.commit(a=3)
        idle.script(CoordinatorNotAvailable("not written"))
        with pytest.raises(CoordinatorNotAvailable):
            await idle.refresh.once()


async def test_the_offsets_of_an_idle_consumer_never_expire() -> None:
    """(G15) the broker's own offsets, whose retention passes several times while the consumer waits."""
    stage = Stage()
    brokers = Brokers()
    brokers.topics["t"] = 1
    commits = 0

    def commit(request: OffsetCommit) -> dict[TopicPartition, None]:
        nonlocal commits
        commits += 1
        stage.commit({name: entry.offset for name, entry in request.offsets.items()})
        stage.later(LIMITS.offsets_retention_ms / 1000 / 2)
        return dict.fromkeys(request.offsets)

    def fetch(request: OffsetFetch) -> FetchedOffsets:
        known = stage.committed()
        wanted = request.partitions or ()
        return FetchedOffsets({n: CommittedOffset(known[n]) if n in known else None for n in wanted})

    brokers.answers |= {"OffsetCommit": commit, "OffsetFetch": fetch}
    stage.commit({A: 7})
    consumer = Consumer(
        "broker1:9092", host=memory_host(brokers, FastClock()), group_id="g", offsets_refresh_ms=1_000
    )
    async with consumer:
        consumer.assign([A])
        await eventually(lambda: commits >= 6, what="commits while nothing comes")
        assert stage.committed() == {A: 7}
