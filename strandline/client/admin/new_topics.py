"""Waits until the partitions of new topics have leaders.

A broker reads every partition of a topic that it is asked about, so thousands of new ones are asked about in
lots, and of a lot that was seen only what had no leader is read again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from itertools import islice
from typing import Final

from strandline.client.retry import Tries
from strandline.errors import BrokerNotAvailable, RequestTimedOut
from strandline.ids import NO_BROKER, NO_EPOCH, TopicId, TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.log import LeaderWait, MetadataAnswer, MetadataQuery
from strandline.vocabulary.metadata import TopicMetadata

logger = logging.getLogger(__name__)

TOPICS_ASKED_MAX: Final = 100
"""Topics that one question names."""
WAITS_MAX: Final = 1_000
"""Partitions for whose leaders a broker may hold its answer. It answers the others from its last reading."""
HELD_MS_MAX: Final = 1_000
"""How long it may."""
UNSEEN_S: Final = 0.5
"""How often the controller is asked whether a new topic still exists, while a broker does not know it."""

Topics = Mapping[str, TopicId]


async def until_led(
    created: Topics,
    ask: Callable[[MetadataQuery], Awaitable[MetadataAnswer]],
    check_exist: Callable[[Topics], Awaitable[None]],
    tries: Tries,
    clock: Clock,
) -> None:
    """Return once every partition of these topics has a leader. `check_exist` asks the controller for topics
    that no broker knows yet.

    Raises RequestTimedOut once `tries` are over, and what `check_exist` raises.
    """
    left, waits = dict(created), list[LeaderWait]()
    look_at = clock.monotonic() + UNSEEN_S
    while left:
        lot = sorted(islice(left, TOPICS_ASKED_MAX))
        try:
            answer = await ask(MetadataQuery(lot, waits, HELD_MS_MAX if waits else 0))
        except BrokerNotAvailable as error:  # a thousand topics at once keep ZooKeeper busy
            logger.info("asking again whether the new topics are led: %s", error.message)
        else:
            seen = [topic for topic in answer.cluster.topics if topic.topic_id == created[topic.name]]
            leaderless = [name for topic in seen for name in _leaderless(topic)]
            waits = [LeaderWait(name, NO_EPOCH) for name in leaderless[:WAITS_MAX]]
            waiting = {name.topic for name in leaderless}
            for topic in seen:
                if topic.name not in waiting:
                    del left[topic.name]
            unseen = set(lot) - {topic.name for topic in seen}
            if unseen and clock.monotonic() >= look_at:
                await check_exist({name: created[name] for name in sorted(unseen)})
                look_at = clock.monotonic() + UNSEEN_S
        late = [name for name in lot if name in left]
        if late and tries.over:
            raise RequestTimedOut(
                f"created, but some partitions of {', '.join(late[:10])} have no leader yet"
            )
        if late:
            await tries.pause()
        else:
            tries.reset()


def _leaderless(topic: TopicMetadata) -> Iterable[TopicPartition]:
    return (
        TopicPartition(topic.name, each.partition) for each in topic.partitions if each.leader == NO_BROKER
    )
