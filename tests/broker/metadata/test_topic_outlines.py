"""Administrators read topics as they are now, and learn when they cannot be read."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.broker.metadata.topic_outlines import TopicOutline, TopicOutlines
from strandline.errors import LeaderNotAvailable
from strandline.ids import TopicId
from strandline.ports import ConnectionLost, Coordination
from tests.hand_clock import HandClock
from tests.znode_tree import ZnodeTree

T = TypeVar("T")
A, B, C = (TopicId(digit * 32) for digit in "abc")
CONFIG = {"retention.ms": "1"}


class Played:
    """A session, which may be away."""

    def __init__(self) -> None:
        self.away = False
        self.back_at_s = 0.0
        """While it is away: it answers from then on."""
        self.clock = HandClock()
        self.session = ZnodeTree().open_session()
        self.outlines = TopicOutlines(self.connected, self.soon, self.clock)

    def connected(self) -> Coordination:
        if self.away and self.clock.now_s < self.back_at_s:
            raise ConnectionLost("away")
        return self.session

    async def soon(self, answer: Awaitable[T]) -> T:
        return await answer

    async def topic(self, name: str, topic_id: TopicId, partitions: int) -> None:
        await self._make(
            znodes.topic(name), znodes.dump_topic(znodes.TopicNode(topic_id, partitions, CONFIG))
        )
        for number in range(partitions):
            await self._make(znodes.replicas(name, number), znodes.dump_replicas((1, 2)))

    async def _make(self, path: str, data: bytes) -> None:
        await self.session.ensure_path(path)
        await self.session.set(path, data)


@pytest.fixture
async def played() -> Played:
    found = Played()
    await found.topic("first", A, 3)
    await found.topic("second", B, 1)
    await found.topic("being-created", C, 0)
    return found


async def test_topics_that_exist_are_outlined(played: Played) -> None:
    found = await played.outlines.read(["first", "being-created", "never", "no/name", "first"], 0)
    assert found == {"first": TopicOutline("first", A, 3, 2, CONFIG)}


async def test_ids_lead_to_names(played: Played) -> None:
    assert await played.outlines.names_of({B, C, "f" * 32}, 0) == {B: "second"}


async def test_a_reading_waits_for_zookeeper_as_long_as_the_client_does(played: Played) -> None:
    """ZooKeeper that stalls for longer than one reading may take is no error for a client with time left."""
    played.away, played.back_at_s = True, played.clock.now_s + 2.5
    assert (await played.outlines.read(["first"], 10.0)).keys() == {"first"}
    played.back_at_s = played.clock.now_s + 2.5
    assert await played.outlines.names_of({B}, 10.0) == {B: "second"}


async def test_without_zookeeper_the_client_asks_again(played: Played) -> None:
    played.away, played.back_at_s = True, 1e9
    began = played.clock.now_s
    with pytest.raises(LeaderNotAvailable):
        await played.outlines.read(["first"], 3.0)
    with pytest.raises(LeaderNotAvailable):
        await played.outlines.names_of({A}, -1.0)
    assert 2.5 < played.clock.now_s - began <= 3.0
