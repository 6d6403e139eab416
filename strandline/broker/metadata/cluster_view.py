"""Answers metadata requests of clients: brokers, controller, topics, leaders.

A broker watches no partitions. It reads from ZooKeeper what a request needs (`topic_cache`), and adds its own
newer knowledge. While ZooKeeper cannot be reached, it answers with its last reading.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from typing import Final

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.facts import BulkReads
from strandline.adapters.zookeeper.unreadable import UnreadableLog
from strandline.broker.metadata.existing_partitions import ExistingPartitions, TopicsNow
from strandline.broker.metadata.prompt_reads import PromptReads, Unanswered
from strandline.broker.metadata.shared_look import SharedLook
from strandline.broker.metadata.topic_cache import TopicCache
from strandline.broker.metadata.topic_names import TopicNames
from strandline.broker.metadata.topic_outlines import TopicOutlines
from strandline.broker.metadata.topic_reader import TopicReader
from strandline.broker.replicas.local_replica import LocalReplica
from strandline.broker.replicas.manager import ReplicaManager
from strandline.config.limits import ZOOKEEPER_READS_IN_FLIGHT_MAX
from strandline.config.services.broker import BrokerSettings
from strandline.errors import (
    BrokerNotAvailable,
    CoordinationError,
    CoordinatorNotAvailable,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.ids import NO_BROKER, BrokerId, TopicPartition
from strandline.ports import Clock, ConnectionLost, Coordination, NoNode
from strandline.tasks import Slices, in_slices, pipelined
from strandline.vocabulary.log import LeaderWait
from strandline.vocabulary.metadata import (
    ClusterMetadata,
    Endpoint,
    PartitionMetadata,
    Registration,
    TopicMetadata,
)
from strandline.vocabulary.topics import is_topic_name

SMALL_TOPICS_MAX: Final = 50
"""An answer with more topics is made in slices of time, and is large."""
SIZES_MAX: Final = 100
"""Topics of one request whose sizes are compared with ZooKeeper's."""
SIZES_WAIT_S: Final = 5.0
"""How long a request waits for that while the link to ZooKeeper is down."""
AWAY_S: Final = 10.0
"""Requests do not wait while ZooKeeper has been away for this time."""
LINK_LOOK_S: Final = 0.05
LOOK_AGAIN_S: Final = 1.0
"""Commits do not wait for ZooKeeper for this time after it left a look at their topics unanswered."""


class ClusterView:
    """The cluster as read through one session; a new session has a new view."""

    def __init__(self, manager: ReplicaManager, settings: BrokerSettings, clock: Clock) -> None:
        self._manager = manager
        self._clock = clock
        self._wait_max_s = settings.metadata_wait_ms_max / 1000
        self._prompt = PromptReads(self._session, settings.metadata_read_ms_max / 1000)
        self._few = BulkReads(self._prompt)
        """For requests that name a few topics: they do not wait for those that read all."""
        unreadable = UnreadableLog()
        self._few_topics = TopicReader(self._few.get, lambda: manager.live, unreadable)
        self._many_topics = TopicReader(BulkReads(self._prompt).get, lambda: manager.live, unreadable)
        self._topics = TopicCache(lambda: manager.live, settings.metadata_age_ms_max / 1000, clock)
        self._existing = ExistingPartitions(self._prompt.connected, settings.reconcile_ms / 1000, clock)
        self.outlines = TopicOutlines(self._prompt.connected, self._prompt.soon, clock)
        self.names = TopicNames(self._prompt, BulkReads(self._prompt), self.name_of)
        self._sizes = SharedLook(self._compare_sizes)
        self._many = SharedLook(self._read_many)
        self._large = asyncio.Lock()
        """Held by the one large answer that is made: 64 at once would each have a slice of time before any
        other work had one."""
        self._counts: dict[str, int] = {}
        """Partition counts of the topics that were found at their last request."""
        self._waits_max = settings.leader_waits_max
        self._away_since = float("inf")
        """When ZooKeeper did not answer for the sizes of topics, monotonic, and has not answered since."""
        self._next_look_at = 0.0
        """When topics of commits are looked at again, monotonic."""
        self._waited_for = 0
        """Partitions whose leaders held requests wait for."""
        self.cluster_id = ""

    async def describe(
        self, topics: Sequence[str], *, omit_topics: bool = False, current_sizes: bool = False
    ) -> tuple[ClusterMetadata, list[str]]:
        """Returns the cluster with these topics (all if none is named), and the names that do not exist.

        `omit_topics` returns no topics at all, for clients that only look for brokers or the controller.
        `current_sizes` looks whether any of a few named topics has grown since its last reading: a client
        that has seen new partitions at one broker sees them at all.
        """
        if self._manager.session is None:
            raise LeaderNotAvailable("this broker has no ZooKeeper session right now; ask another")
        try:
            names = list(dict.fromkeys(topics))
            if not names and not omit_topics:
                names = znodes.topic_names(await self._prompt.children(znodes.TOPICS))
                self._topics.keep(names)
        except CoordinationError:
            names = self._topics.names
        if current_sizes and len(topics) <= SIZES_MAX:
            await self._await_sizes(filter(is_topic_name, topics))
        found = await self._read_topics(filter(is_topic_name, names))
        brokers = tuple(r.endpoint for _, r in sorted(self._manager.live.items()) if not r.shutting_down)
        known = tuple(found[name] for name in names if name in found)
        controller, unknown = await self._controller()
        metadata = ClusterMetadata(self.cluster_id, brokers, controller, known, unknown)
        return metadata, [name for name in topics if name not in found]

    async def partition_counts(self, topics: Sequence[str]) -> dict[str, int]:
        """Partition counts of those of these topics that exist (of all topics if none is named).

        While ZooKeeper cannot be reached, returns the last reading. Raises LeaderNotAvailable if that does
        not contain the answer.
        """

        async def read(name: str) -> int:
            try:
                return (await self._many_topics.node(name)).partitions
            except NoNode:
                return 0
            except znodes.UnreadableZnode:
                return self._counts.get(name, 0)

        names = list(dict.fromkeys(filter(is_topic_name, topics)))
        try:
            if not topics:
                names = znodes.topic_names(await self._prompt.children(znodes.TOPICS))
            counts = await pipelined(read, names, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        except CoordinationError as error:
            names = names if topics else list(self._counts)
            unread = [name for name in names if name not in self._counts]
            if unread or not names:
                what = f"topics {', '.join(unread)}" if unread else "topics"
                raise LeaderNotAvailable(f"{what} cannot be read from ZooKeeper now: {error}") from error
            counts = [self._counts[name] for name in names]
        found = {name: count for name, count in zip(names, counts, strict=True) if count}
        for name in names if topics else list(self._counts):  # a name that does not exist is not kept
            self._counts.pop(name, None)
        self._counts.update(found)
        return found

    async def all_topics(self) -> list[str]:
        """The names of all topics, by a reading that begins now. Raises CoordinatorNotAvailable while
        ZooKeeper does not answer quickly."""
        try:
            await self._prompt.sync()
            return znodes.topic_names(await self._prompt.children(znodes.TOPICS))
        except CoordinationError as error:
            raise CoordinatorNotAvailable(f"topics cannot be read from ZooKeeper now: {error}") from error

    def has(self, partition: TopicPartition) -> bool:
        """True if the partition existed when its topic was last asked for. It costs no reading."""
        return self._topics.has(partition)

    def name_of(self, topic_id: str) -> str | None:
        """The topic that had this id when it was last asked for. It costs no reading."""
        return self._topics.name_of(topic_id)

    async def missing(self, names: Iterable[TopicPartition]) -> Set[TopicPartition]:
        """Those of these partitions that do not exist; none while ZooKeeper does not answer quickly."""
        try:
            return await self._prompt.soon(self._existing.missing(names))
        except ConnectionLost:
            return frozenset()

    async def topics_now(self, names: Iterable[TopicPartition]) -> TopicsNow:
        """The topics of these partitions, by a look that begins after this call. Nothing is known while
        ZooKeeper does not answer quickly; then no request waits for it for a while."""
        if self._clock.monotonic() < self._next_look_at:
            return TopicsNow()
        try:
            return await self._prompt.soon(self._existing.now(names))
        except Unanswered:
            self._next_look_at = self._clock.monotonic() + LOOK_AGAIN_S
        except CoordinationError:
            pass
        return TopicsNow()

    async def registration(self, broker: BrokerId) -> Registration | None:
        """The broker's registration in ZooKeeper, None if there is none. Raises BrokerNotAvailable while
        ZooKeeper cannot be read."""
        path = znodes.broker(broker)
        try:
            node = await self._prompt.get(path)
            return znodes.load_registration(broker, node.data, node.czxid)
        except NoNode:
            return None
        except (CoordinationError, ValueError) as error:
            raise BrokerNotAvailable(
                f"the registration of broker {broker} cannot be read: {error}"
            ) from error

    async def _controller(self) -> tuple[Endpoint | None, str]:
        """The active controller. If none was found, the reason why this broker could not look; empty if none
        is active."""
        try:
            endpoint = znodes.load_controller((await self._few.get(znodes.CONTROLLER)).data).endpoint
            self._manager.host.heard_of(endpoint)
            return endpoint, ""
        except NoNode:
            return None, ""
        except CoordinationError as error:
            return None, f"broker {self._manager.me} cannot ask ZooKeeper for it: {error}"
        except ValueError as error:
            return None, str(error)

    # --- reading -----------------------------------------------------------------------------

    def _session(self) -> Coordination | None:
        session = self._manager.session
        return None if session is None else session.coordination

    async def _await_sizes(self, names: Iterable[str]) -> None:
        """A broker whose link to ZooKeeper is down waits for it a while: what it has read may be old, and the
        client may have come from a broker that knows more. It does not while ZooKeeper is away for long."""
        asked = {name for name in names if self._topics.was_read(name)}
        began = self._clock.monotonic()
        while asked:
            try:
                await self._sizes.at(asked)
            except CoordinationError:
                now = self._clock.monotonic()
                self._away_since = min(self._away_since, began)
                if now >= min(began + SIZES_WAIT_S, self._away_since + AWAY_S):
                    return
                await self._clock.sleep(LINK_LOOK_S)
            else:
                self._away_since = float("inf")
                return

    async def _compare_sizes(self, names: Set[str]) -> None:
        await self._prompt.sync()

        async def compare(name: str) -> None:
            await self._topics.compare_size(name, self._few_topics)

        await pipelined(compare, sorted(names), in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)

    async def _read_topics(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        """Those that exist."""

        async def read(name: str) -> None:
            try:
                found[name] = self._with_own(await self._topics.topic(name, reader))
            except (UnknownTopicOrPartition, znodes.UnreadableZnode):
                return

        wanted = list(names)
        large = len(wanted) > SMALL_TOPICS_MAX
        reader = self._many_topics if large else self._few_topics
        found = await self._read_together(wanted) if large else {}
        left = [name for name in wanted if name not in found]
        await pipelined(read, left, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        if missing := [name for name in left if name not in found]:
            # This broker's ZooKeeper server may lag; a name that is missing after a sync does not exist.
            with suppress(CoordinationError):
                await self._prompt.sync()
                await pipelined(read, missing, in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)
        return found

    async def _read_together(self, names: Sequence[str]) -> dict[str, TopicMetadata]:
        """Many topics, as far as they can be read. Requests for many that come together share one reading,
        and are answered one after the other."""
        if left := {name for name in names if self._topics.fresh(name) is None}:
            await self._many.at(left)
        async with self._large:
            known = [topic for name in names if (topic := self._topics.last(name)) is not None]
            return {each.name: each for each in await in_slices(self._with_own, known, self._clock)}

    async def _read_many(self, names: Set[str]) -> None:
        """Reads these topics; each request asks again for those that cannot be read."""

        async def read(name: str) -> None:
            with suppress(StrandlineError):
                await self._topics.topic(name, self._many_topics)

        await pipelined(read, sorted(names), in_flight_max=ZOOKEEPER_READS_IN_FLIGHT_MAX)

    def _with_own(self, topic: TopicMetadata) -> TopicMetadata:
        """Adds what this broker knows better: leaders with higher epochs, and the replicas and ISRs of the
        partitions that it leads.

        A broker that was named as the next leader leads in an epoch that is not known yet, if it leads at
        all.
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
                assigned = replica.assigned or p.replicas
                return PartitionMetadata(
                    p.partition, state.leader, state.leader_epoch, assigned, state.isr_ids
                )
            if self._follows(replica) and replica.leader_epoch > p.leader_epoch:
                return p.led_by(replica.leader, replica.leader_epoch)
            return p

        return TopicMetadata(topic.name, topic.topic_id, tuple(map(newest, topic.partitions)), topic.config)

    def _follows(self, replica: LocalReplica) -> bool:
        """True if this broker knows the leader of the replica. A leader that is not registered does not lead,
        and has no address that an answer could name."""
        return replica.leader in self._manager.live and replica.leader_epoch != replica.led_epoch

    def is_led(self, partition: TopicPartition, topic_id: str) -> bool:
        """True if this broker leads or follows this partition of this topic. It costs no reading; another
        broker's partition is not known here."""
        try:
            replica = self._manager.named(*partition)
        except (UnknownTopicOrPartition, NotLeaderOrFollower):
            return False
        if replica.key.topic_id != topic_id:
            return False
        return replica.leadership is not None or self._follows(replica)

    async def wait_for_leaders(self, waits: Sequence[LeaderWait], max_wait_s: float) -> None:
        """Waits until each of these partitions has a leader with a higher epoch than this, bounded by the
        settings. For partitions that this broker does not host, asks ZooKeeper at once."""
        if self._waited_for + len(waits) > self._waits_max:
            max_wait_s = 0.0
        deadline = self._clock.monotonic() + min(max_wait_s, self._wait_max_s)
        slices = Slices(self._clock)
        self._waited_for += len(waits)
        try:
            for wait in waits:
                if slices.used_up:
                    await slices.next()
                if wait.name.partition < 0:
                    continue
                if not await self._leader_known(wait, deadline):
                    self._topics.outdated(wait.name)
        finally:
            self._waited_for -= len(waits)

    async def _leader_known(self, wait: LeaderWait, deadline: float) -> bool:
        """Waits until this broker knows a leader with a higher epoch; False if it does not by the
        deadline."""
        try:
            replica = self._manager.named(*wait.name)
        except (UnknownTopicOrPartition, NotLeaderOrFollower):
            return False
        changed = asyncio.Event()
        replica.listen(changed.set)
        try:
            while replica.leader_epoch <= wait.above_epoch or replica.leader == NO_BROKER:
                changed.clear()
                async with asyncio.timeout(max(0.0, deadline - self._clock.monotonic())):
                    await changed.wait()
        except TimeoutError:
            return False
        finally:
            replica.unlisten(changed.set)
        return True
