"""A broker finds the names of topics by their ids, also of topics that it has no replica of."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.broker.metadata.topic_names import TopicNames
from strandline.broker.metadata.topic_outlines import TopicOutlines
from strandline.ids import TopicId
from strandline.ports import ConnectionLost, Coordination
from tests.hand_clock import HandClock
from tests.znode_tree import ZnodeTree

T = TypeVar("T")
A, B, GONE = (TopicId(digit * 32) for digit in "abf")


class Played:
    """A session, which may be away."""

    def __init__(self) -> None:
        self.away = False
        self.read: dict[str, str] = {}
        """The names of topics that were read otherwise, by id."""
        self.session = ZnodeTree().open_session()
        outlines = TopicOutlines(self.connected, self.soon, HandClock())
        self.names = TopicNames(self.connected, self.soon, outlines, self.read.get)

    def connected(self) -> Coordination:
        if self.away:
            raise ConnectionLost("away")
        return self.session

    async def soon(self, answer: Awaitable[T]) -> T:
        return await answer

    async def topic(self, name: str, topic_id: TopicId) -> None:
        for path in (znodes.topic(name), znodes.topic_id(topic_id)):
            await self.session.ensure_path(path)
        await self.session.set(znodes.topic(name), znodes.dump_topic(znodes.TopicNode(topic_id, 1, {})))


@pytest.fixture
async def played() -> Played:
    found = Played()
    await found.topic("first", A)
    await found.topic("second", B)
    return found


async def test_each_topic_is_read_once_for_its_name(played: Played) -> None:
    """An id that does not exist costs one reading, however many topics there are."""
    reads = played.session.reads
    assert await played.names.of({A, GONE}) == {A: "first"}
    assert reads[znodes.topic("first")] == reads[znodes.topic("second")] == 1
    assert await played.names.of({A, GONE}) == {A: "first"}
    assert reads[znodes.topic("first")] == 1


async def test_a_topic_that_was_deleted_has_no_name(played: Played) -> None:
    """Also if its name was read before, and another topic has it."""
    played.read[A] = "first"
    assert await played.names.of({A}) == {A: "first"}
    await played.session.delete(znodes.topic_id(A))
    assert await played.names.of({A, B}) == {B: "second"}


async def test_without_zookeeper_the_names_that_are_known_count(played: Played) -> None:
    """The coordinator compares the ids of commits: one of a topic that was deleted counts for no other."""
    assert await played.names.of({A}) == {A: "first"}
    played.away = True
    assert await played.names.of({A, GONE}) == {A: "first"}
