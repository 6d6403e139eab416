"""What a broker tells clients about the cluster: brokers, controller, topics, leaders.

A broker watches no partitions. It reads from ZooKeeper what a request asks for (`topic_cache`), overlays what
it knows better, and answers from its last reading while ZooKeeper cannot be reached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence, Set
from contextlib import suppress
from typing import TypeVar

from strandline.adapters.zookeeper import znodes
from strandline.broker.metadata.existing_partitions import ExistingPartitions
from strandline.broker.metadata.topic_cache import TopicCache
from strandline.broker.replicas.manager import ReplicaManager
from strandline.config import ZOOKEEPER_READS_IN_FLIGHT_MAX, BrokerSettings
from strandline.errors import (
    BrokerNotAvailable,
    CoordinationError,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, TopicPartition
from strandline.ports import Clock, ConnectionLost, Coordination, LinkState, NoNode, SessionEnded
from strandline.tasks import Slices, pipelined
from strandline.vocabulary.metadata import (
    ClusterMetadata,
    Endpoint,
    PartitionMetadata,
    Registration,
    TopicMetadata,
)
from strandline.vocabulary.topics import is_topic_name

T = TypeVar("T")


class ClusterView:
    """Reads through one session; a new session has a new view."""

    def __init__(self, manager: ReplicaManager, settings: BrokerSettings, clock: Clock) -> None:
        self._manager = manager
        self._clock = clock
        self._read_max_s = settings.metadata_read_ms_max / 1000
        self._wait_max_s = settings.metadata_wait_ms_max / 1000
        self._topics = TopicCache(
            self._get, self._life, lambda: manager.live, settings.metadata_age_ms_max / 1000, clock
        )
        self._existing = ExistingPartitions(self._connected, settings.reconcile_ms / 1000, clock)
        self._counts: dict[str, int] = {}
        """Of the topics that were found when they were last asked for."""
        self._waits_max = settings.leader_waits_max
        self._waited_for = 0
        """Partitions for whose leaders answers are held."""
        self.cluster_id = ""

    async def describe(
        self, topics: Sequence[str], *, omit_topics: bool = False
    ) -> tuple[ClusterMetadata, list[str]]:
        """The cluster with these topics (all of them if none is named), and the names of which there is none.

        `omit_topics`: with none at all, for who only looks for brokers or the controller.
        """
        if self._manager.session is None:
            raise LeaderNotAvailable("this broker has no ZooKeeper session right now; ask another")
        try:
            names = list(dict.fromkeys(topics))
            if not names and not omit_topics:
                names = znodes.topic_names(await self._children(znodes.TOPICS))
        except CoordinationError:
            names = self._topics.names
        found = await self._read_topics(filter(is_topic_name, names))
        brokers = tuple(r.endpoint for _, r in sorted(self._manager.live.items()) if not r.shutting_down)
        known = tuple(found[name] for name in names if name in found)
        controller, unknown = await self._controller()
        metadata = ClusterMetadata(self.cluster_id, brokers, controller, known, unknown)
        return metadata, [name for name in topics if name not in found]

    async def partition_counts(self, topics: Sequence[str]) -> dict[str, int]:
        """Partitions of those of these topics that exist (of all topics if none is named).

        While ZooKeeper cannot be reached it is what was read last. Raises LeaderNotAvailable where that
        does not answer the question.
        """

        async def read(name: str) -> int:
            try:
                return znodes.load_topic(name, await self._get(znodes.topic(name))).partitions
            except NoNode:
                return 0
            except znodes.UnreadableZnode:
                return self._counts.get(name, 0)

        names = list(dict.fromkeys(filter(is_topic_name, topics)))
        try:
            if not topics:
                names = znodes.topic_names(await self._children(znodes.TOPICS))
            counts = await pipelined(read, names, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        except CoordinationError as error:
            names = names if topics else list(self._counts)
            unread = [name for name in names if name not in self._counts]
            if unread or not names:
                raise LeaderNotAvailable(
                    f"topics cannot be read from ZooKeeper now: {', '.join(unread)} {error}"
                ) from error
            counts = [self._counts[name] for name in names]
        found = {name: count for name, count in zip(names, counts, strict=True) if count}
        for name in names:  # of what does not exist nothing is kept
            self._counts.pop(name, None)
        self._counts.update(found)
        return found

    async def missing(self, names: Iterable[TopicPartition]) -> Set[TopicPartition]:
        """Those of these partitions that do not exist; none while ZooKeeper cannot be read soon."""
        try:
            return await self._soon(self._existing.missing(names))
        except ConnectionLost:
            return frozenset()

    async def registration(self, broker: BrokerId) -> Registration | None:
        """The broker's registration as ZooKeeper has it, None if there is none. Raises BrokerNotAvailable
        while ZooKeeper cannot be read."""
        path = znodes.broker(broker)
        try:
            node = await self._soon(self._connected().get(path))
            return znodes.load_registration(broker, node.data, node.czxid)
        except NoNode:
            return None
        except (CoordinationError, ValueError) as error:
            raise BrokerNotAvailable(
                f"the registration of broker {broker} cannot be read: {error}"
            ) from error

    async def _controller(self) -> tuple[Endpoint | None, str]:
        """The active one; if none was found, why this broker could not look, or nothing if none is active."""
        try:
            return znodes.load_controller(await self._get(znodes.CONTROLLER)).endpoint, ""
        except NoNode:
            return None, ""
        except CoordinationError as error:
            return None, f"broker {self._manager.me} cannot ask ZooKeeper for it: {error}"
        except ValueError as error:
            return None, str(error)

    # --- reading -----------------------------------------------------------------------------

    async def _get(self, path: str) -> bytes:
        """Raises NoNode, and ConnectionLost soon where the session would wait for ZooKeeper to return."""
        return (await self._soon(self._connected().get(path))).data

    async def _life(self, broker: BrokerId) -> BrokerEpoch | None:
        """In which a broker is registered now; None: in none. Raises as `_get`, but for NoNode."""
        try:
            node = await self._soon(self._connected().get(znodes.broker(broker)))
        except NoNode:
            return None
        return BrokerEpoch(node.czxid)

    async def _children(self, path: str) -> list[str]:
        """Raises as `_get`."""
        return await self._soon(self._connected().children(path))

    def _connected(self) -> Coordination:
        session = self._manager.session
        if session is None:
            raise SessionEnded("this broker has no ZooKeeper session right now")
        if session.coordination.state is not LinkState.CONNECTED:
            raise ConnectionLost("ZooKeeper cannot be reached right now")
        return session.coordination

    async def _soon(self, answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._read_max_s):
                return await answer
        except TimeoutError:
            raise ConnectionLost(f"ZooKeeper did not answer within {self._read_max_s} s") from None

    async def _read_topics(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        found: dict[str, TopicMetadata] = {}

        async def read(name: str) -> None:
            try:
                found[name] = self._with_own(await self._topics.topic(name))
            except (UnknownTopicOrPartition, znodes.UnreadableZnode):
                return

        wanted = list(names)
        await pipelined(read, wanted, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        if missing := [name for name in wanted if name not in found]:
            # This broker's server may be behind: what is not there after a sync is not there.
            with suppress(CoordinationError):
                await self._soon(self._connected().sync())
                await pipelined(read, missing, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        return found

    def _with_own(self, topic: TopicMetadata) -> TopicMetadata:
        """What this broker knows better: leaders of a higher epoch, and its own ISRs.

        Who is named to succeed it leads in an epoch that is not known yet, if at all.
        """

        def newest(p: PartitionMetadata) -> PartitionMetadata:
            try:
                replica = self._manager.named(topic.name, p.partition)
            except (UnknownTopicOrPartition, NotLeaderOrFollower):
                return p
            if replica.key.topic_id != topic.topic_id:
                return p
            if replica.leadership is not None:
                state = replica.leadership.core.state
                return PartitionMetadata(
                    p.partition, state.leader, state.leader_epoch, p.replicas, state.isr_ids
                )
            # A leader that is not registered is none, and has no address that the answer could name.
            known = replica.leader in self._manager.live and replica.leader_epoch != replica.led_epoch
            if known and replica.leader_epoch > p.leader_epoch:
                return p.led_by(replica.leader, replica.leader_epoch)
            return p

        return TopicMetadata(topic.name, topic.topic_id, tuple(map(newest, topic.partitions)), topic.config)

    async def wait_for_leaders(self, waits: Sequence[tuple[TopicPartition, int]], max_wait_s: float) -> None:
        """Hold an answer until every one of these has a leader of a higher epoch than this, bounded by the
        settings. Of those that this broker does not host, ZooKeeper is asked at once."""
        if self._waited_for + len(waits) > self._waits_max:
            max_wait_s = 0.0
        deadline = self._clock.monotonic() + min(max_wait_s, self._wait_max_s)
        slices = Slices(self._clock)
        self._waited_for += len(waits)
        try:
            for partition, above_epoch in waits:
                if slices.used_up:
                    await slices.next()
                if partition.partition < 0:
                    continue
                if not await self._leader_known(partition, above_epoch, deadline):
                    self._topics.outdated(partition)
        finally:
            self._waited_for -= len(waits)

    async def _leader_known(self, partition: TopicPartition, above_epoch: int, deadline: float) -> bool:
        """Wait until this broker knows a leader of a higher epoch; False if it does not by the deadline."""
        try:
            replica = self._manager.named(*partition)
        except (UnknownTopicOrPartition, NotLeaderOrFollower):
            return False
        news = asyncio.Event()
        replica.listen(news.set)
        try:
            while replica.leader_epoch <= above_epoch or replica.leader == NO_BROKER:
                news.clear()
                async with asyncio.timeout(max(0.0, deadline - self._clock.monotonic())):
                    await news.wait()
        except TimeoutError:
            return False
        finally:
            replica.unlisten(news.set)
        return True
