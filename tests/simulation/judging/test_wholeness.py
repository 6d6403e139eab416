"""The judge names what is half done by the znodes (CORRECTNESS Q9)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.ports import Create, Delete, SetData
from strandline.simulation.engine.zookeeper.znode_tree import ZnodeTree
from strandline.vocabulary.metadata import IsrMember, PartitionState
from strandline_lab.simulation.judging.wholeness import Assigned, half_done, unserved

TOPIC = znodes.topic("t")
ID = TopicId("a")


def create(tree: ZnodeTree, path: str, data: bytes = b"") -> None:
    tree.apply(Create(path, data), 0, 1)


def node(partitions: int, growing: int = 0) -> bytes:
    return znodes.dump_topic(znodes.TopicNode(ID, partitions, {}, growing))


@pytest.fixture
def tree() -> ZnodeTree:
    """A topic with one partition, and one broker with an empty queue."""
    tree = ZnodeTree()
    for path in ("/admin", "/brokers", *znodes.SKELETON, znodes.state_queue(0)):
        create(tree, path)
    member = IsrMember(BrokerId(0), BrokerEpoch(5))
    state = PartitionState(BrokerId(0), LeaderEpoch(1), (member,))
    create(tree, TOPIC, node(1))
    create(tree, znodes.topic_id(ID))
    create(tree, znodes.partition("t", 0))
    create(tree, znodes.replicas("t", 0), znodes.dump_replicas([0]))
    create(tree, znodes.isr("t", 0), isr_znodes.dump_isr(state))
    create(tree, znodes.leader("t", 0))
    return tree


def found(tree: ZnodeTree) -> list[str]:
    return [*half_done(tree, {}), *unserved(tree)]


def test_a_whole_topic_is_whole(tree: ZnodeTree) -> None:
    assigned: Assigned = {}
    assert not list(half_done(tree, assigned))
    assert assigned == {PartitionKey(ID, PartitionId(0)): (0,)}
    assert not found(tree)


def _set(path: str, data: bytes) -> Callable[[ZnodeTree], object]:
    return lambda tree: tree.apply(SetData(path, data), 0, 2)


def _delete(path: str) -> Callable[[ZnodeTree], object]:
    return lambda tree: tree.apply(Delete(path), 0, 2)


def _create(path: str) -> Callable[[ZnodeTree], object]:
    return lambda tree: create(tree, path)


@pytest.mark.parametrize(
    ("half", "said"),
    [
        (_set(TOPIC, node(0)), "topic t has 0 partitions, and the znodes of [0]"),
        (_set(TOPIC, node(2)), "topic t has 2 partitions, and the znodes of [0]"),
        (_set(TOPIC, node(1, 3)), "topic t has 1 partitions, to be 3, and the znodes of [0]"),
        (_create(znodes.partition("t", 1)), "topic t has 1 partitions, and the znodes of [0, 1]"),
        (_delete(znodes.leader("t", 0)), "t-0: /brokers/topics/t/0/leader does not exist"),
        (_set(znodes.replicas("t", 0), b"[3]"), "t-0 is led by 0, and has the replicas (3,)"),
        (_delete(znodes.topic_id(ID)), "the ids of topics differ from those of incarnations: ['a']"),
        (_create(znodes.delete_topic("t")), "topic t is marked for deletion"),
        (_create(znodes.reassigned_topic("gone")), "the replicas of gone are marked as moving: []"),
        (_create(f"{znodes.state_queue(0)}/request-0"), "broker 0 has 1 znodes in its queue"),
        (_create(znodes.unrecorded("x")), "1 znodes keep events that are not recorded"),
    ],
)
def test_what_is_half_done_is_named(tree: ZnodeTree, half: Callable[[ZnodeTree], object], said: str) -> None:
    half(tree)
    assert found(tree) == [said]
