"""Finds the names of topics by their ids, of topics that this broker need not have.

A topic keeps its name, so a pair that was read once is never wrong. Whether the topic is still there is one
reading of a znode for each id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.broker.metadata.topic_outlines import Soon, TopicOutlines
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.errors import CoordinationError, LeaderNotAvailable
from strandline.ids import TopicId
from strandline.ports import Coordination
from strandline.tasks import pipelined

NAMES_MAX: Final = 20_000
"""Names that are kept. With more, all are found anew."""


class TopicNames:
    """The names of a cluster's topics."""

    def __init__(
        self,
        connected: Callable[[], Coordination],
        soon: Soon,
        outlines: TopicOutlines,
        known: Callable[[str], str | None],
    ) -> None:
        """`connected`, `soon`: as of `TopicOutlines`. `known`: the name of an id that was read otherwise."""
        self._connected = connected
        self._soon = soon
        self._outlines = outlines
        self._known = known
        self._found: dict[TopicId, str] = {}

    async def of(self, ids: Collection[TopicId]) -> dict[TopicId, str]:
        """Those of these topics that exist, by a look that begins after this call. While ZooKeeper does not
        answer, those whose names are known."""
        try:
            ids = await self._existing(ids)
            if unnamed := [each for each in ids if self._name_of(each) is None]:
                self._keep(await self._outlines.names_of(unnamed, wait_s=0))
        except (CoordinationError, LeaderNotAvailable):
            pass
        named = {each: self._name_of(each) for each in ids}
        return {each: name for each, name in named.items() if name is not None}

    async def _existing(self, ids: Collection[TopicId]) -> list[TopicId]:
        session, asked = self._connected(), list(ids)
        await self._soon(session.sync(znodes.TOPIC_IDS))

        async def exists(topic_id: TopicId) -> bool:
            return await self._soon(session.exists(znodes.topic_id(topic_id))) is not None

        found = await pipelined(exists, asked, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        return [each for each, there in zip(asked, found, strict=True) if there]

    def _name_of(self, topic_id: TopicId) -> str | None:
        return self._found.get(topic_id) or self._known(topic_id)

    def _keep(self, names: dict[str, str]) -> None:
        if len(self._found) + len(names) > NAMES_MAX:
            self._found.clear()
        self._found.update({TopicId(topic_id): name for topic_id, name in names.items()})
