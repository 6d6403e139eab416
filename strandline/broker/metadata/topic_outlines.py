"""Reads what administrators ask about topics: size and config, as ZooKeeper has them now.

Metadata of clients may be half a second old (`topic_cache`). An administrator who has changed a config reads
it back, and builds the next change on it. A reading that ZooKeeper does not answer is repeated for as long as
the client waits: programs end at an error here that they would repeat in answers of Metadata.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from strandline.adapters.zookeeper import znodes
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.errors import CoordinationError, LeaderNotAvailable
from strandline.ids import TopicId
from strandline.ports import Clock, ConnectionLost, Coordination, NoNode, SessionEnded
from strandline.tasks import pipelined
from strandline.vocabulary.topics import is_topic_name

T = TypeVar("T")

AGAIN_S: Final = 0.05
"""Between two tries, while ZooKeeper cannot be read."""


class Soon(Protocol):
    """Waits a bounded time for an answer. Raises ConnectionLost at its end."""

    def __call__(self, answer: Awaitable[T]) -> Coroutine[Any, Any, T]: ...


@dataclass(frozen=True, slots=True)
class TopicOutline:
    """`config` has only what differs from the defaults."""

    name: str
    topic_id: TopicId
    partitions: int
    replication_factor: int
    config: Mapping[str, str]


class TopicOutlines:
    """`connected` returns the session, or raises CoordinationError; `soon` bounds a reading."""

    def __init__(
        self,
        connected: Callable[[], Coordination],
        soon: Soon,
        clock: Clock,
    ) -> None:
        self._connected = connected
        self._soon = soon
        self._clock = clock

    async def read(self, names: Iterable[str], wait_s: float) -> dict[str, TopicOutline]:
        """Those of these topics that exist. Raises LeaderNotAvailable if ZooKeeper cannot be read for this
        time."""
        wanted = list(dict.fromkeys(filter(is_topic_name, names)))

        async def read(session: Coordination) -> dict[str, TopicOutline]:
            found = await self._each(session, wanted, _read)
            return {each.name: each for each in found if each is not None}

        return await self._until_read(read, wait_s)

    async def names_of(self, ids: Collection[str], wait_s: float) -> dict[str, str]:
        """The names of topics with these ids, by id. Raises LeaderNotAvailable, as `read`."""

        async def read(session: Coordination) -> dict[str, str]:
            every = znodes.topic_names(await self._soon(session.children(znodes.TOPICS)))
            found = await self._each(session, every, _node)
            return {
                node.topic_id: name
                for name, node in zip(every, found, strict=True)
                if node is not None and node.topic_id in ids
            }

        return await self._until_read(read, wait_s)

    async def _until_read(self, read: Callable[[Coordination], Awaitable[T]], wait_s: float) -> T:
        """What is read, by one try after the other. At least one is made. Raises LeaderNotAvailable."""
        ends = self._clock.monotonic() + wait_s
        while True:
            try:
                return await read(await self._synced())
            except (ConnectionLost, SessionEnded) as error:
                if self._clock.monotonic() + AGAIN_S > ends:
                    raise _unreadable(error) from error
            except CoordinationError as error:
                raise _unreadable(error) from error
            await self._clock.sleep(AGAIN_S)

    async def _each(
        self, session: Coordination, names: list[str], read: Callable[[Coordination, str], Awaitable[T]]
    ) -> list[T]:
        def work(name: str) -> Awaitable[T]:
            return self._soon(read(session, name))

        return await pipelined(work, names, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)

    async def _synced(self) -> Coordination:
        """The session, once its ZooKeeper server has what was written before."""
        session = self._connected()
        await self._soon(session.sync(znodes.TOPICS))
        return session


async def _read(session: Coordination, name: str) -> TopicOutline | None:
    node = await _node(session, name)
    if node is None:
        return None
    try:
        raw = (await session.get(znodes.replicas(name, 0))).data
        replicas = znodes.load_replicas(name, 0, raw)
    except (NoNode, znodes.UnreadableZnode):
        return None
    return TopicOutline(name, node.topic_id, node.partitions, len(replicas), node.config)


async def _node(session: Coordination, name: str) -> znodes.TopicNode | None:
    """None for a topic that does not exist, or is being created."""
    try:
        node = znodes.load_topic(name, (await session.get(znodes.topic(name))).data)
    except (NoNode, znodes.UnreadableZnode):
        return None
    return node if node.partitions else None


def _unreadable(error: CoordinationError) -> LeaderNotAvailable:
    return LeaderNotAvailable(f"topics cannot be read from ZooKeeper now: {error}")
