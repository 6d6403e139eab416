"""A broker finds the names of topics by their ids, also of topics that it has no replica of."""

from __future__ import annotations

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import BulkReads
from strandline.broker.metadata.prompt_reads import PromptReads
from strandline.broker.metadata.topic_names import ONE_BY_ONE_MAX, TopicNames
from strandline.ids import TopicId
from strandline.ports import LinkState
from strandline.tasks import pipelined
from tests.znode_tree import ZnodeTree

A, B, GONE = (TopicId(digit * 32) for digit in "abf")


class Played:
    def __init__(self) -> None:
        self.read: dict[str, str] = {}
        """The names of topics that were read otherwise, by id."""
        self.session = ZnodeTree().open_session()
        prompt = PromptReads(lambda: self.session, 1.0)
        self.names = TopicNames(prompt, BulkReads(prompt), self.read.get)

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
    assert await played.names.of({A, GONE}) == {A: "first", GONE: None}
    assert reads[znodes.topic("first")] == reads[znodes.topic("second")] == 1
    assert await played.names.of({A, GONE}) == {A: "first", GONE: None}
    assert reads[znodes.topic("first")] == 1


async def test_a_topic_that_was_deleted_has_no_name(played: Played) -> None:
    """Also if its name was read before, and another topic has it."""
    played.read[A] = "first"
    assert await played.names.of({A}) == {A: "first"}
    await played.session.delete(znodes.topic_id(A))
    assert await played.names.of({A, B}) == {A: None, B: "second"}


async def test_without_zookeeper_the_names_that_are_known_count(played: Played) -> None:
    """The coordinator compares the ids of commits: one of a topic that was deleted counts for no other. That
    no topic has an id is known of none."""
    assert await played.names.of({A}) == {A: "first"}
    played.session.state = LinkState.SUSPENDED
    assert await played.names.of({A, GONE}) == {A: "first"}


async def test_many_ids_cost_one_listing(played: Played) -> None:
    """CORRECTNESS X6: they are made up as easily as sent."""
    made_up = {TopicId(f"{number:032x}") for number in range(10 * ONE_BY_ONE_MAX)}
    assert await played.names.of({A, *made_up}) == {A: "first", **dict.fromkeys(made_up)}
    assert not any(played.session.reads[znodes.topic_id(each)] for each in (A, *made_up))
    assert played.session.most_in_flight <= ONE_BY_ONE_MAX


async def test_requests_that_come_together_share_a_look_and_a_reading(played: Played) -> None:
    """The first has its own; the others come while that is under way."""
    asked = [{A}, {B}, {A, B}, {A, GONE}] * 10
    names = {A: "first", B: "second", GONE: None}
    found = await pipelined(played.names.of, asked, in_flight_max=len(asked))
    assert found == [{each: names[each] for each in ids} for ids in asked]
    assert played.session.reads[znodes.topic_id(A)] == 2
    assert played.session.reads[znodes.topic("first")] <= 3
