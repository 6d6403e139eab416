"""Judges what requests leave behind: once everything is healed, nothing is half done.

A topic exists whole, or not at all: all of its partitions have a leader, and each replica has its log on its
broker's disk. Nothing is left of a topic that does not exist: no znode, no mark, no folder. No request waits
in the queue of a broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.ids import PartitionId, PartitionKey, TopicId
from strandline.ports import NoNode
from strandline.simulation.engine.zookeeper.znode_tree import ZnodeTree
from strandline_lab.simulation.judging.folders import replica_folders
from strandline_lab.simulation.judging.judge import Judge, Problem, left_after
from strandline_lab.simulation.stage import Stage

CHECK: Final = "wholeness"
WHOLE_S_MAX: Final = 30.0
"""After the last client has finished: until nothing is half done. A controller looks for leftovers every few
seconds."""

Assigned = dict[PartitionKey, tuple[int, ...]]
"""The replicas of each partition that exists."""


class Wholeness(Judge):
    """Looks at the znodes and the disks once everything is healed."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._half_done: list[str] = []

    async def finish(self) -> None:
        self._half_done = await left_after(self._stage, WHOLE_S_MAX, self._found)

    def problems(self) -> list[Problem]:
        return [Problem(CHECK, sentence) for sentence in self._half_done]

    def _found(self) -> Iterator[str]:
        tree = self._stage.world.zookeeper.servers[0].tree
        assigned: Assigned = {}
        yield from half_done(tree, assigned)
        yield from unserved(tree)
        yield from self._misplaced(assigned)

    def _misplaced(self, assigned: Assigned) -> Iterator[str]:
        """Replicas without a folder, and folders without a replica."""
        wanted = {(broker, key) for key, replicas in assigned.items() for broker in replicas}
        for each in replica_folders(self._stage):
            key = each.description.key
            if (each.broker, key) not in wanted:
                yield f"broker {each.broker} has a log of {each.description.name}, and no replica: {key}"
            wanted.discard((each.broker, key))
        for broker, key in sorted(wanted):
            yield f"broker {broker} has a replica of {key}, and no log"


def half_done(tree: ZnodeTree, assigned: Assigned) -> Iterator[str]:
    """What is half done by the znodes. Adds the partitions of topics that exist to `assigned`."""
    ids: set[TopicId] = set()
    topics = set(tree.children(znodes.TOPICS))
    for topic in sorted(topics):
        node = znodes.load_topic(topic, tree.get(znodes.topic(topic)).data)
        ids.add(node.topic_id)
        numbers = sorted(map(int, tree.children(znodes.topic(topic))))
        if not node.partitions or node.growing or numbers != list(range(node.partitions)):
            to_be = f", to be {node.growing}" if node.growing else ""
            yield f"topic {topic} has {node.partitions} partitions{to_be}, and the znodes of {numbers}"
            continue
        for number in numbers:
            key = PartitionKey(node.topic_id, PartitionId(number))
            try:
                isr = tree.get(znodes.isr(topic, number)).data
                leader = isr_znodes.load_isr(topic, number, isr).leader
                assigned[key] = znodes.load_replicas(
                    topic, number, tree.get(znodes.replicas(topic, number)).data
                )
                tree.get(znodes.leader(topic, number))
            except NoNode as error:
                yield f"{topic}-{number}: {error.message}"
            else:
                if leader not in assigned[key]:
                    yield f"{topic}-{number} is led by {leader}, and has the replicas {assigned[key]}"
    if ids != (found := set(tree.children(znodes.TOPIC_IDS))):
        yield f"the ids of topics differ from those of incarnations: {sorted(ids ^ found)}"
    yield from (
        f"topic {each} is marked for deletion" for each in sorted(tree.children(znodes.DELETE_TOPICS))
    )
    for topic in sorted(tree.children(znodes.REASSIGNED)):
        moving = sorted(tree.children(znodes.reassigned_topic(topic)))
        if moving or topic not in topics:
            yield f"the replicas of {topic} are marked as moving: {moving}"


def unserved(tree: ZnodeTree) -> Iterator[str]:
    """Requests and events that nothing has taken."""
    for broker in sorted(tree.children(znodes.STATE)):
        if waiting := tree.children(f"{znodes.STATE}/{broker}"):
            yield f"broker {broker} has {len(waiting)} znodes in its queue"
    if kept := tree.children(znodes.UNRECORDED):
        yield f"{len(kept)} znodes keep events that are not recorded"
