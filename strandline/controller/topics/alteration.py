"""Alters a topic's config by one compare-and-set, and has its replicas read it again."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import read_topic
from strandline.controller.core.topics import change_config, check_internal_config
from strandline.controller.term.placements import PlacedPartitions, check_topic, read_placements
from strandline.controller.term.term import Term
from strandline.controller.term.writes import restart_step
from strandline.errors import OutcomeUnknown, UnknownTopicOrPartition
from strandline.ports import BadVersion, MultiFailed, NoNode, SetData
from strandline.vocabulary.admin import AlterTopic

ATTEMPTS_MAX: Final = 20
"""Attempts at a write. Each fails only if another request altered the topic in between."""


async def check_alteration(term: Term, asked: AlterTopic) -> None:
    """Raises the error with which `alter_config` would refuse this."""
    check_internal_config(asked.topic, {*asked.set, *asked.unset})
    _altered(await read_placements(term.session, asked.topic), asked)


async def alter_config(term: Term, asked: AlterTopic) -> None:
    """Sets and unsets configs; changes by other requests stay.

    A topic with more partitions than one `multi` can notify (over a thousand) is notified in several, after
    its config was written. Brokers find a change that a crash left unannounced when they reconcile. Raises
    UnknownTopicOrPartition, InvalidConfig, InvalidRequest, Deposed, SessionEnded.
    """
    name = asked.topic
    check_internal_config(name, {*asked.set, *asked.unset})
    for _ in range(ATTEMPTS_MAX):
        try:
            await _alter(term, asked)
            return
        except MultiFailed as failed:
            if isinstance(failed.cause, NoNode):
                raise UnknownTopicOrPartition(f"topic {name!r} does not exist") from failed
            if not isinstance(failed.cause, BadVersion):
                raise
    raise OutcomeUnknown(f"topic {name!r} was altered by others at the same time, again and again")


async def _alter(term: Term, asked: AlterTopic) -> None:
    name = asked.topic
    topic = await read_placements(term.session, name)
    partitions = topic.partitions.values()
    altered = _altered(topic, asked)
    stamp = term.stamp()
    first, *rest = term.pack(
        restart_step(name, altered.topic_id, placed.number, placed.assigned, placed.state.leader_epoch, stamp)
        for placed in partitions
    )

    async def stands() -> bool:
        # The config alone shows nothing if it stays as it was: then the requests may not be queued.
        found = await read_topic(term.session, name)
        return found is not None and found.value == altered and found.version > topic.version

    node = SetData(znodes.topic(name), znodes.dump_topic(altered), topic.version)
    await term.write(first, stands, before=[node, znodes.of_incarnation(altered.topic_id)])
    crash_point("controller.alter.written")
    for multi in rest:
        await term.ask_once(multi)


def _altered(topic: PlacedPartitions, asked: AlterTopic) -> znodes.TopicNode:
    """The topic's znode after the change, checked. Raises InvalidConfig, InvalidRequest, and
    UnknownTopicOrPartition for another topic than the one with the wanted id."""
    check_topic(topic.node, topic.name, asked.topic_id)
    config = change_config(topic.node.config, asked.set, asked.unset)
    return replace(topic.node, config=config)
