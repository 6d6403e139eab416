"""The topics of one request share writes, and each keeps its own outcome (CORRECTNESS E7, E9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.adapters.zookeeper.requests.sizes import OPERATION_BYTES
from strandline.controller.term.writes import HEAD_BYTES_MAX
from strandline.controller.topics.topics import Topics
from strandline.errors import InvalidRequest, TopicAlreadyExists, UnknownTopicOrPartition
from strandline.ids import NO_BROKER, BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.ports import Create, Delete, Operation, SetData
from strandline.vocabulary.admin import NewTopic
from strandline.vocabulary.metadata import PartitionState
from strandline.vocabulary.state_changes import ChangeKind, Command, RequestState, StateChangeEvent
from tests.controller.support.running import MULTI_BYTES
from tests.controller.support.tree_term import InMemory, ending_term, in_memory
from tests.controller.support.znodes_seen import kept_events

NAMES = [f"t{number:02}" for number in range(20)]
STARTS, DELETIONS = Command.START_REPLICA, Command.DELETE_REPLICA
ALL = {(name, number) for name in NAMES for number in range(3)}
EPOCH = LeaderEpoch(5)
DONE = dict.fromkeys(NAMES, "")


def once(memory: InMemory, kind: type[Operation], path: str, *operations: Operation) -> None:
    """Another client does this just before the first multi is taken that has such an operation."""

    def meanwhile(multi: Sequence[Operation]) -> None:
        if any(isinstance(each, kind) and each.path == path for each in multi):
            memory.tree.meanwhile = lambda _: None
            for operation in operations:
                memory.tree.apply(operation, 0)

    memory.tree.meanwhile = meanwhile


def size(multi: Sequence[Operation]) -> int:
    """The bytes of a multi without the check of the epoch."""
    data = (len(each.data) if isinstance(each, Create | SetData) else 0 for each in multi[1:])
    return sum(data) + sum(len(each.path) + OPERATION_BYTES for each in multi[1:])


def everything(memory: InMemory, name: str) -> list[str]:
    """The znodes of a topic, children first."""
    path = znodes.topic(name)
    topic_id = znodes.load_topic(name, memory.tree.nodes[path].data).topic_id
    own = [each for each in memory.tree.nodes if f"{each}/".startswith(f"{path}/")]
    return [*sorted(own, reverse=True), znodes.topic_id(topic_id)]


def led(name: str, topic_id: TopicId, number: int) -> StateChangeEvent:
    """The event of an election."""
    key = PartitionKey(topic_id, PartitionId(number))
    elected = ChangeKind.ELECT_LEADER
    return StateChangeEvent(
        f"{name}-{number}", elected, RequestState.COMPLETED, name, key, BrokerId(1), EPOCH, 5
    )


async def check_made(memory: InMemory, names: Sequence[str]) -> None:
    """Exactly these topics are there, and each of their replicas is to start once."""
    assert await memory.names() == sorted(names)
    for broker in (1, 2):
        started = await memory.requested(broker, STARTS)
        assert sorted(started) == [(name, number) for name in sorted(names) for number in range(3)]


async def check_removed(memory: InMemory) -> None:
    """All is gone, and each replica is to be deleted once."""
    assert await memory.names() == []
    assert await memory.observer.children(znodes.DELETE_TOPICS) == []
    assert await memory.observer.children(znodes.TOPIC_IDS) == []
    for broker in (1, 2):
        deleted = await memory.requested(broker, DELETIONS)
        assert len(deleted) == len(ALL)
        assert set(deleted) == ALL


async def test_topics_of_one_request_are_one_write_and_one_znode_a_queue() -> None:
    async with in_memory() as memory:
        assert await memory.create(*NAMES, partitions=3) == DONE
        assert len(memory.session.multis) == 1
        assert [await memory.entries(broker) for broker in (1, 2)] == [1, 1]
        await check_made(memory, NAMES)
        memory.session.multis.clear()
        assert await memory.delete(*NAMES) == DONE
        assert len(memory.session.multis) == 2, "one that marks, and one that removes"
        assert [await memory.entries(broker) for broker in (1, 2)] == [2, 2]
        await check_removed(memory)


async def test_topics_that_do_not_fit_into_one_write_take_several() -> None:
    """No multi exceeds the bound; a topic that is larger than that is written in parts."""
    async with in_memory(multi_bytes_max=MULTI_BYTES) as memory:
        assert await memory.create(*NAMES, partitions=3) == DONE
        assert 1 < len(memory.session.multis) < len(NAMES)
        assert max(map(size, memory.session.multis)) <= MULTI_BYTES - HEAD_BYTES_MAX
        await check_made(memory, NAMES)
        assert await memory.create("large", "small", partitions=40) == {"large": "", "small": ""}
        assert (await memory.node("large")).partitions == 40
        assert await memory.delete("large", "small") == {"large": "", "small": ""}
        assert await memory.names() == NAMES
        memory.session.multis.clear()
        assert await memory.delete(*NAMES) == DONE
        assert 2 < len(memory.session.multis) < len(NAMES)
        assert max(map(size, memory.session.multis)) <= MULTI_BYTES - HEAD_BYTES_MAX
        assert await memory.names() == []


async def test_a_topic_that_exists_fails_alone() -> None:
    """It came into being after the requested ones were planned."""
    async with in_memory() as memory:
        path = znodes.topic("t07")
        other = znodes.dump_topic(znodes.TopicNode(TopicId("other"), 1, {}))
        once(memory, Create, path, Create(path, other))
        expected = DONE | {"t07": "TopicAlreadyExists"}
        assert await memory.create(*NAMES, partitions=3) == expected
        assert len(memory.session.multis) == 2
        assert (await memory.node("t07")).topic_id == "other"
        await memory.observer.delete(path)
        await check_made(memory, [name for name in NAMES if name != "t07"])
        assert await memory.create("t07", partitions=3) == {"t07": ""}


async def test_only_topics_with_a_replica_on_a_forgotten_broker_fail() -> None:
    async with in_memory([1, 2, 9]) as memory:
        queue = znodes.state_queue(9)
        once(memory, Create, znodes.topic("a"), Delete(queue))

        asked = {"a": [(1, 2)], "b": [(1, 9)], "c": [(2, 1)], "d": [(9, 1)]}
        refused = dict.fromkeys(["b", "d"], "BrokerForgotten")
        assert await memory.place(asked) == dict.fromkeys(asked, "") | refused
        assert await memory.names() == ["a", "c"]
        assert [name for name, _ in await memory.requested(1, STARTS)] == ["a", "c"]


@pytest.mark.parametrize("applied", [True, False])
async def test_topics_whose_answer_was_lost_are_made_once(applied: bool) -> None:
    async with in_memory() as memory:
        memory.session.lose(applied=applied)
        assert await memory.create(*NAMES, partitions=3) == DONE
        assert len(memory.session.multis) == (1 if applied else 2)
        await check_made(memory, NAMES)


async def test_topics_whose_answer_was_lost_are_made_once_though_one_is_gone_already() -> None:
    """The first of them says nothing about the others: another client has deleted it."""
    async with in_memory() as memory:

        def deleted() -> None:
            for each in everything(memory, "t00"):
                memory.tree.apply(Delete(each), 0)

        memory.session.lose(applied=True, then=deleted)
        assert await memory.create("t00", "t01", "t02") == dict.fromkeys(["t00", "t01", "t02"], "")
        assert len(memory.session.multis) == 1
        assert await memory.names() == ["t01", "t02"]


async def test_a_topic_that_exists_fails_alone_after_a_lost_write() -> None:
    """The refusal of the second attempt is not taken for the success of the first."""
    async with in_memory() as memory:
        path = znodes.topic("t07")
        memory.session.lose(applied=False)
        once(memory, Create, path, Create(path, znodes.dump_topic(znodes.TopicNode(TopicId("other"), 1, {}))))
        assert await memory.create(*NAMES, partitions=3) == DONE | {"t07": "TopicAlreadyExists"}
        await memory.observer.delete(path)
        await check_made(memory, [name for name in NAMES if name != "t07"])


async def test_a_deposed_controller_creates_and_deletes_none() -> None:
    """CORRECTNESS E5: their outcomes are for the next controller to say."""
    async with in_memory() as memory:
        await memory.create("old")
        await memory.observer.set(znodes.CONTROLLER_EPOCH, b"")
        unknown = "OutcomeUnknown"
        assert await memory.create(*NAMES) == dict.fromkeys(NAMES, unknown)
        assert await memory.delete("old") == {"old": unknown}
        assert await memory.names() == ["old"]
        assert await memory.observer.children(znodes.DELETE_TOPICS) == []
        memory.session.expire()
        assert await memory.delete("old") == {"old": unknown}


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("write", [0, 1], ids=["mark", "removal"])
async def test_topics_whose_answer_was_lost_are_deleted_once(applied: bool, write: int) -> None:
    async with in_memory() as memory:
        await memory.create(*NAMES, partitions=3)
        if write:
            _, held = memory.session.hold()
            held.set()
        memory.session.lose(applied=applied)
        assert await memory.delete(*NAMES) == DONE
        await check_removed(memory)


async def test_a_topic_that_changed_is_deleted_after_the_others() -> None:
    """An election or a reassignment wrote one of its znodes between the read and the write: only that topic
    is read again."""
    async with in_memory() as memory:
        await memory.create(*NAMES, partitions=3)
        changed = znodes.replicas("t07", 1)
        once(memory, Delete, changed, SetData(changed, znodes.dump_replicas((2, 1)), -1))
        memory.session.multis.clear()
        memory.session.reads.clear()
        assert await memory.delete(*NAMES) == DONE
        assert len(memory.session.multis) == 4
        assert [memory.session.reads[znodes.replicas(name, 1)] for name in ("t06", "t07")] == [1, 2]
        await check_removed(memory)


async def test_a_topic_that_is_not_there_fails_alone() -> None:
    async with in_memory() as memory:
        await memory.create("a", "b", "c")
        once(memory, Create, znodes.delete_topic("b"), *map(Delete, everything(memory, "b")))
        unknown = "UnknownTopicOrPartition"
        assert await memory.delete("a", "b", "c", "d") == {"a": "", "b": unknown, "c": "", "d": unknown}
        assert await memory.names() == []
        assert await memory.observer.children(znodes.DELETE_TOPICS) == []


async def test_requests_at_the_same_time_share_no_topic() -> None:
    """Of two requests that name a topic, one creates it. Both may delete it, and its replicas get one
    request."""
    async with in_memory() as memory:
        left, right = NAMES[:12], NAMES[8:]
        both: list[dict[str, str]] = []

        async def note(outcomes: Awaitable[dict[str, str]]) -> None:
            both.append(await outcomes)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(note(memory.create(*left, partitions=3)))
            tasks.create_task(note(memory.create(*right, partitions=3)))
        made = [name for outcomes in both for name, error in outcomes.items() if not error]
        assert sorted(made) == NAMES
        assert [e for outcomes in both for e in outcomes.values() if e] == ["TopicAlreadyExists"] * 4
        await check_made(memory, NAMES)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(note(memory.delete(*left)))
            tasks.create_task(note(memory.delete(*right)))
        assert {error for outcomes in both[2:] for error in outcomes.values()} == {""}
        await check_removed(memory)


async def test_topics_that_exist_are_found_together() -> None:
    """A refusal names one of them; each of the others would cost one more write."""
    async with in_memory() as memory:
        await memory.create(*NAMES[:15], partitions=3)
        memory.session.multis.clear()
        new = [NewTopic(name, 0, assignments=[(1, 2)] * 3) for name in NAMES]
        async with ending_term(memory.session) as next_term:  # it has not read which topics there are
            results = await Topics(next_term).create(new, (), validate_only=False, internal=False)
        assert [each.error is None for each in results] == [False] * 15 + [True] * 5
        assert {type(each.error) for each in results[:15]} == {TopicAlreadyExists}
        assert len(memory.session.multis) == 2
        await check_made(memory, NAMES)


async def test_two_deletions_of_the_same_topics_cost_no_write_for_each_topic() -> None:
    """A client whose request took long sends it again."""
    async with in_memory() as memory:
        await memory.create(*NAMES, partitions=3)
        memory.session.multis.clear()
        both: list[dict[str, str]] = []

        async def delete() -> None:
            both.append(await memory.delete(*NAMES))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(delete())
            tasks.create_task(delete())
        assert both == [DONE, DONE]
        assert len(memory.session.multis) < 8
        await check_removed(memory)


async def test_topics_that_all_change_are_deleted_nevertheless() -> None:
    """New topics are elected leaders while they are deleted."""
    async with in_memory() as memory:
        await memory.create(*NAMES, partitions=3)
        paths = [znodes.replicas(name, 0) for name in NAMES]
        changes = [SetData(path, znodes.dump_replicas((2, 1)), -1) for path in paths]
        once(memory, Delete, paths[0], *changes)
        memory.session.multis.clear()
        assert await memory.delete(*NAMES) == DONE
        sizes = [len(multi) for multi in memory.session.multis[1:-1]]
        assert sum(sizes) < 8 * sizes[0], "each of 20 refusals wrote all that were left again"
        await check_removed(memory)


async def test_a_name_that_stands_twice_is_refused_and_the_others_are_done() -> None:
    async with in_memory() as memory:
        one = NewTopic("a", 1, 1)
        asked = [one, NewTopic("b", 1, 1), one]
        made = await memory.topics.create(asked, {"a"}, validate_only=False, internal=False)
        assert [type(each.error) for each in made] == [InvalidRequest, type(None), InvalidRequest]
        assert await memory.names() == ["b"]
        deleted = await memory.topics.delete(["b", "b", "c"], (), {"b"})
        assert [type(each.error) for each in deleted] == [
            InvalidRequest,
            InvalidRequest,
            UnknownTopicOrPartition,
        ]


async def test_the_next_controller_deletes_what_is_marked() -> None:
    """The session ends after the first of several writes that remove topics."""
    async with in_memory(multi_bytes_max=MULTI_BYTES) as memory:
        await memory.create(*NAMES, partitions=3)
        memory.session.multis.clear()

        def meanwhile(_: Sequence[Operation]) -> None:
            if len(memory.tree.children(znodes.TOPICS)) < len(NAMES):
                memory.session.expire()

        memory.tree.meanwhile = meanwhile
        assert set((await memory.delete(*NAMES)).values()) == {"", "OutcomeUnknown"}
        memory.tree.meanwhile = lambda _: None
        left = await memory.names()
        assert left and left != NAMES
        async with ending_term(memory.observer) as next_term:
            await Topics(next_term).resume()
        await check_removed(memory)


async def test_the_trails_of_deleted_partitions_are_kept_together() -> None:
    """CORRECTNESS Q5: the leaders that would record them stop. One znode has those of many partitions."""
    async with in_memory() as memory:
        await memory.create(*NAMES, partitions=3)
        for name in NAMES:
            topic_id = (await memory.node(name)).topic_id
            for number in range(3):
                event = led(name, topic_id, number)
                state = PartitionState(NO_BROKER, EPOCH, (), (event,))
                await memory.observer.set(znodes.isr(name, number), isr_znodes.dump_isr(state))
        assert await memory.delete(*NAMES) == DONE
        assert len(await memory.observer.children(znodes.UNRECORDED)) == 1
        kept = await kept_events(memory.observer)
        assert {(event.topic, event.key.partition) for event in kept} == ALL
