"""Altering a topic's config: one compare-and-set, and word to its replicas to read it again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from controller.core.topics import change_config
from controller.fenced_session import FencedSession
from controller.reading import read_partitions, read_topic
from controller.topic_writes import pack, restart_step
from strandline.adapters import znodes
from strandline.adapters.crash_points import crash_point
from strandline.errors import OutcomeUnknown, UnknownTopicOrPartition
from strandline.ports import BadVersion, MultiFailed, NoNode, SetData

ATTEMPTS_MAX: Final = 20
"""Each one fails only if another request altered the topic in between."""


async def alter_topic(
    session: FencedSession, name: str, set_: Mapping[str, str], unset: Collection[str], at_ms: int
) -> None:
    """Set and unset configs, on top of what others changed meanwhile.

    A topic of more partitions than one `multi` can notify (over a thousand) is notified in several,
    after its config was written; what a crash leaves out, brokers find when they reconcile. Raises
    UnknownTopicOrPartition, InvalidConfig, InvalidRequest, Deposed, SessionEnded.
    """
    for _ in range(ATTEMPTS_MAX):
        try:
            await _alter(session, name, set_, unset, at_ms)
            return
        except MultiFailed as failed:
            if isinstance(failed.cause, NoNode):
                raise UnknownTopicOrPartition(f"topic {name!r} does not exist") from failed
            if not isinstance(failed.cause, BadVersion):
                raise
    raise OutcomeUnknown(f"topic {name!r} was altered by others at the same time, again and again")


async def _alter(
    session: FencedSession, name: str, set_: Mapping[str, str], unset: Collection[str], at_ms: int
) -> None:
    znode = await session.exists(znodes.topic(name))
    node = await read_topic(session, name)
    if znode is None or node is None or node.partitions == 0:
        raise UnknownTopicOrPartition(f"topic {name!r} does not exist")
    partitions = await read_partitions(session, name, range(node.partitions))
    replication_factor = min((len(p.assignment) for p in partitions), default=1)
    altered = replace(node, config=change_config(node.config, set_, unset, replication_factor))
    first, *rest = pack(
        restart_step(name, node.topic_id, p.number, p.assignment, p.state.leader_epoch, at_ms)
        for p in partitions
    )

    async def stands() -> bool:
        return await read_topic(session, name) == altered

    # The version was read before the data: at worst it is older, and the compare-and-set fails.
    config = SetData(znodes.topic(name), znodes.dump_topic(altered), znode.version)
    await session.write([config, *first], stands)
    crash_point("controller.alter.written")
    for multi in rest:
        await session.write(multi, _never)


async def _never() -> bool:
    """Nobody can tell whether these requests were queued; queuing them twice changes nothing."""
    return False
