"""Finds brokers by their role at this moment, as ZooKeeper has recorded it."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.ids import INTERNAL_PREFIX, OFFSETS_TOPIC, TopicPartition
from strandline.ports import NoNode
from strandline_lab.simulation.faults.fault import Scene


class Led(NamedTuple):
    """A partition with a leader, and the broker numbers of the leader and the other in-sync replicas."""

    name: TopicPartition
    leader: int
    others: tuple[int, ...]


def a_led_partition(scene: Scene, random: Random) -> Led | None:
    """A partition that clients write to. None if none has a leader."""
    return _choice(random, _of_clients(scene))


def a_partition_led_elsewhere(scene: Scene, random: Random, coordinator: int) -> Led | None:
    """A partition that clients write to, in sync on all brokers, whose leader is another one than this."""
    found = [
        each
        for each in _of_clients(scene)
        if coordinator in each.others and 1 + len(each.others) == len(scene.cluster.brokers)
    ]
    return _choice(random, found)


def an_unclean_partition(scene: Scene, random: Random) -> Led | None:
    """A partition with followers whose topic allows unclean elections. None if none has a leader."""
    allowing = scene.stage.unclean_topics
    return _choice(random, [each for each in _led(scene) if each.others and each.name.topic in allowing])


def a_coordinator(scene: Scene, random: Random) -> int | None:
    """The number of a broker that coordinates groups, or may."""
    led = _choice(random, [each for each in _led(scene) if each.name.topic == OFFSETS_TOPIC])
    return None if led is None else led.leader


def partitions_of(scene: Scene, topic: str) -> int:
    """How many partitions a topic has; 0 if there is none of this name."""
    try:
        return znodes.load_topic(topic, scene.stage.znodes.get(znodes.topic(topic)).data).partitions
    except NoNode:
        return 0


def leader_of(scene: Scene, name: TopicPartition) -> int | None:
    """The number of the broker that leads this partition. None if none does."""
    return next((each.leader for each in _led(scene) if each.name == name), None)


def active_controller(scene: Scene) -> int | None:
    """The number of the active controller."""
    try:
        found = znodes.load_controller(scene.stage.znodes.get(znodes.CONTROLLER).data)
    except NoNode:
        return None
    number = found.endpoint.id - scene.cluster.first_id
    return number if 0 <= number < len(scene.cluster.controllers) else None


def _choice(random: Random, found: list[Led]) -> Led | None:
    return random.choice(found) if found else None


def _of_clients(scene: Scene) -> list[Led]:
    return [each for each in _led(scene) if not each.name.topic.startswith(INTERNAL_PREFIX)]


def _led(scene: Scene) -> list[Led]:
    tree, first = scene.stage.znodes, scene.cluster.first_id
    found: list[Led] = []
    try:
        topics = sorted(tree.children(znodes.TOPICS))
    except NoNode:
        return found  # no process of the cluster has reached ZooKeeper yet
    for topic in topics:
        try:
            count = znodes.load_topic(topic, tree.get(znodes.topic(topic)).data).partitions
            for number in range(count):
                state = isr_znodes.load_isr(topic, number, tree.get(znodes.isr(topic, number)).data)
                if state.leader >= 0:
                    others = tuple(each - first for each in state.isr_ids if each != state.leader)
                    found.append(Led(TopicPartition(topic, number), state.leader - first, others))
        except NoNode:
            continue  # it is being created or deleted
    return found
