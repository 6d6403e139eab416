"""A client's view of the cluster: brokers, topics and leaders, and the calls to a broker.

A known leader has an epoch, and is never replaced by one of an older epoch. A leader that refuses a request
or does not answer is *doubted*. Then another replica is asked, which holds its answer until it knows a leader
of a higher epoch, so that a failover costs no polling interval.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from strandline.adapters.codecs.log import METADATA, PARTITION_COUNTS
from strandline.client.addresses import parse_bootstrap, unreachable
from strandline.client.backoff import backoff_s
from strandline.client.retry import Tries, retry
from strandline.client.scope import Scope
from strandline.client.waits import WAITS_LOGGER, Notice
from strandline.config.client import ClientSettings
from strandline.errors import (
    BrokerNotAvailable,
    InconsistentClusterId,
    LeaderHint,
    LeaderNotAvailable,
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.ids import NO_BROKER, NO_EPOCH, TopicPartition
from strandline.ports import Clock, Method, RefusedForNow, Request, Response, Stream, Transport
from strandline.vocabulary.log import LeaderWait, MetadataAnswer, MetadataQuery
from strandline.vocabulary.log_position import same_topic
from strandline.vocabulary.metadata import ClusterMetadata, Endpoint, PartitionMetadata, TopicMetadata

logger = logging.getLogger(__name__)
unled = logging.getLogger(WAITS_LOGGER)

T = TypeVar("T")

LEADER_WAIT_MS: Final = 1_000
"""The longest time that a broker holds its answer until it knows a new leader. Then another one is asked."""
LEADER_WAITS_AT_ONCE_MAX: Final = 64
"""Requests for new leaders in progress. With more partitions in doubt a request names several."""
TOPIC_WAIT_MS: Final = 3_000
"""How long a topic may be unknown before it counts as missing: brokers learn of a new one after a moment."""

REFRESHED_TOGETHER_MAX: Final = 100
"""Topics that one request asks for when all are refreshed: a broker reads all their partitions for it."""


class NoneCanTell(BrokerNotAvailable):
    """Brokers were reached, and each said that it does not know now: mostly, ZooKeeper stalls."""


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition. `broker` is NO_BROKER while there is none."""

    broker: int
    epoch: int


class Cluster:
    """One client's view. `run` is its task; listeners are called after each change of a leader."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        settings: ClientSettings,
        transport: Transport,
        clock: Clock,
    ) -> None:
        self._bootstrap = parse_bootstrap(bootstrap)
        self._settings = settings
        self._transport = transport
        self._clock = clock
        self._cluster_id = ""
        self._brokers: dict[int, Endpoint] = {}
        self._topics: dict[str, TopicMetadata] = {}
        self._refreshes = 0
        self._refreshed: dict[str, int] = {}
        self._refreshing = asyncio.Lock()
        self._leaders: dict[TopicPartition, Leader] = {}
        self._listeners: list[Callable[[TopicPartition], None]] = []
        self._topic_listeners: list[Callable[[TopicMetadata], None]] = []
        self._answered_last: str | None = None
        self._scope: Scope | None = None
        self._doubts: dict[TopicPartition, int] = {}
        self._searched: set[TopicPartition] = set()
        self._doubted = asyncio.Event()
        self._turns: dict[TopicPartition, int] = {}
        self._unled: dict[TopicPartition, Notice] = {}

    @property
    def request_timeout_s(self) -> float:
        return self._settings.request_timeout_ms / 1000

    def run(self, scope: Scope) -> None:
        """Start the view's own tasks in the client's scope."""
        self._scope = scope
        scope.spawn(self._seek_leaders(), "leaders")
        scope.spawn(self._refresh_periodically(), "metadata")

    def reach(self, bootstrap: Sequence[str]) -> None:
        """Use these bootstrap addresses from now on."""
        self._bootstrap = parse_bootstrap(bootstrap)

    # --- what is known -----------------------------------------------------------------------

    def leader(self, name: TopicPartition) -> Leader | None:
        """The leader with the highest known epoch; None before the partition is known."""
        return self._leaders.get(name)

    def known_topic(self, name: str) -> TopicMetadata | None:
        return self._topics.get(name)

    def on_change(self, listener: Callable[[TopicPartition], None]) -> None:
        """Call `listener` with a partition whose leader changed, or whose search ended without one."""
        self._listeners.append(listener)

    def on_topic(self, listener: Callable[[TopicMetadata], None]) -> None:
        """Call `listener` with each topic that was read, before its partitions' leaders count."""
        self._topic_listeners.append(listener)

    async def topic(self, name: str, *, partitions_min: int = 0) -> TopicMetadata:
        """A topic's metadata. It is requested if it is unknown, or known with fewer partitions than
        `partitions_min`: the topic may have grown. While brokers cannot tell it is requested again (`told`).
        Raises UnknownTopicOrPartition, BrokerNotAvailable.
        """
        known = self._topics.get(name)
        if known is not None and len(known.partitions) >= partitions_min:
            return known
        tries = Tries(self._settings, self._clock, TOPIC_WAIT_MS / 1000)
        while True:
            answer = await self.told(lambda: self.refresh([name]))
            known = self._topics.get(name)
            late = tries.over
            if known is not None and (late or len(known.partitions) >= partitions_min):
                return known
            error = answer.errors.get(name) if answer is not None else None
            if late or (error is not None and not error.retriable):
                raise error or UnknownTopicOrPartition(f"topic {name!r} does not exist")
            await tries.pause()

    async def refresh(self, topics: Sequence[str]) -> MetadataAnswer | None:
        """Request these topics; None if another call has requested them since this one began."""
        before = self._refreshes
        async with self._refreshing:
            if all(self._refreshed.get(name, 0) > before for name in topics):
                return None
            self._refreshes += 1
            number = self._refreshes
            answer = await self.ask(MetadataQuery(topics))
            self._refreshed.update(dict.fromkeys(topics, number))
            return answer

    # --- asking ------------------------------------------------------------------------------

    async def told(self, ask: Callable[[], Awaitable[T]]) -> T:
        """The result of `ask`, which is called again while brokers cannot tell, for `request_timeout_ms`.
        Raises BrokerNotAvailable if none is reached, or none can tell in that time, and what `ask` raises."""
        return await retry(
            ask,
            "no broker can tell now",
            settings=self._settings,
            clock=self._clock,
            limit_s=self.request_timeout_s,
            retriable=lambda error: isinstance(error, NoneCanTell),
        )

    async def ask(self, query: MetadataQuery, *, prefer: Iterable[int] = ()) -> MetadataAnswer:
        """Request metadata from any broker, and apply the answer.

        Raises BrokerNotAvailable if none answers, InconsistentClusterId.
        """
        answer = await self.call_any(METADATA, query, prefer=prefer, wait_ms=query.max_wait_ms)
        self._take(answer.cluster)
        return answer

    async def partition_counts(self, topics: Sequence[str]) -> dict[str, int]:
        """The partition counts of these topics, as far as they exist; of all topics if none is named.

        Raises BrokerNotAvailable.
        """
        return await self.call_any(PARTITION_COUNTS, topics)

    async def call_any(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        prefer: Iterable[int] = (),
        wait_ms: int = 0,
    ) -> Response:
        """Call brokers one after the other until one answers. Raises BrokerNotAvailable with all errors."""
        reasons: list[str] = []
        reached = False
        for address in self._candidates(prefer):
            try:
                response = await self._transport.call(
                    address, method, request, timeout_s=self.request_timeout_s + wait_ms / 1000
                )
            except StrandlineError as error:  # another broker may be able to answer
                if not error.retriable:
                    raise
                reached |= not isinstance(error, BrokerNotAvailable)
                reasons.append(self._explained(address, error))
                continue
            self._answered_last = address
            return response
        none = NoneCanTell if reached else BrokerNotAvailable
        raise none(f"no broker answered: {'; '.join(reasons)}")

    def _candidates(self, prefer: Iterable[int]) -> list[str]:
        """Addresses to try: preferred brokers, the one that answered last, known brokers, the bootstrap."""
        preferred = [self._brokers[broker].address for broker in prefer if broker in self._brokers]
        last = [self._answered_last] if self._answered_last is not None else []
        known = [endpoint.address for endpoint in self._brokers.values()]
        return list(dict.fromkeys([*preferred, *last, *known, *self._bootstrap]))

    def _explained(self, address: str, error: StrandlineError) -> str:
        if isinstance(error, BrokerNotAvailable) and not isinstance(error, RefusedForNow):
            for endpoint in self._brokers.values():
                if endpoint.address == address:
                    return unreachable("broker", endpoint)
        return error.message

    async def call(self, broker: int, method: Method[Request, Response], request: Request) -> Response:
        """One call to one broker. Raises as `Transport.call`."""
        endpoint = self._endpoint(broker)
        try:
            return await self._transport.call(
                endpoint.address, method, request, timeout_s=self.request_timeout_s
            )
        except BrokerNotAvailable as error:
            raise BrokerNotAvailable(self._explained(endpoint.address, error)) from error

    async def open(self, broker: int, method: Method[Request, Response]) -> Stream[Request, Response]:
        """A stream to one broker. Raises BrokerNotAvailable that names what the broker advertised."""
        endpoint = self._endpoint(broker)
        try:
            return await self._transport.open(
                endpoint.address, method, timeout_s=self._settings.connect_timeout_ms / 1000
            )
        except BrokerNotAvailable as error:
            raise BrokerNotAvailable(self._explained(endpoint.address, error)) from error

    def _endpoint(self, broker: int) -> Endpoint:
        endpoint = self._brokers.get(broker)
        if endpoint is None:
            raise BrokerNotAvailable(f"the address of broker {broker} is not known")
        return endpoint

    # --- learning ----------------------------------------------------------------------------

    def follow(self, name: TopicPartition, error: StrandlineError) -> None:
        """The known leader failed with this error: follow the error's hint, or request the leader.

        A hint with an older epoch than the known one is outdated, and does not count.
        """
        known = self._leaders.get(name)
        hint = error.leader
        if hint is None or (known is not None and hint.leader_epoch < known.epoch):
            self.doubt(name)
        else:
            self._learn(name, hint)

    def _learn(self, name: TopicPartition, hint: LeaderHint) -> None:
        if hint.broker_id not in self._brokers:
            self._brokers[hint.broker_id] = Endpoint(hint.broker_id, hint.host, hint.port)
        self._lead(name, Leader(hint.broker_id, hint.leader_epoch))

    def doubt(self, name: TopicPartition) -> None:
        """The leader of this partition failed, or there is none: request the next one."""
        leader = self._leaders.get(name)
        if name not in self._searched:
            self._doubts[name] = -1 if leader is None else leader.epoch
            self._doubted.set()

    def _lead(self, name: TopicPartition, leader: Leader) -> None:
        known = self._leaders.get(name)
        if known == leader or (known is not None and leader.epoch < known.epoch):
            return
        self._leaders[name] = leader
        self._notify(name)

    def _notify(self, name: TopicPartition) -> None:
        for listener in self._listeners:
            listener(name)

    def _take(self, cluster: ClusterMetadata) -> None:
        if self._cluster_id and cluster.cluster_id and cluster.cluster_id != self._cluster_id:
            raise InconsistentClusterId(
                f"a broker of cluster {cluster.cluster_id} answers where cluster {self._cluster_id} was meant"
            )
        self._cluster_id = cluster.cluster_id or self._cluster_id
        if cluster.brokers:
            # A broker that is missing keeps its address here: it may return.
            self._brokers.update({endpoint.id: endpoint for endpoint in cluster.brokers})
        for topic in cluster.topics:
            if self._is_older(topic):
                continue
            self._forget_leaders_before(topic)
            self._topics[topic.name] = topic
            for listener in self._topic_listeners:
                listener(topic)
            for partition in topic.partitions:
                name = TopicPartition(topic.name, partition.partition)
                self._lead(name, Leader(partition.leader, partition.leader_epoch))

    def _is_older(self, topic: TopicMetadata) -> bool:
        """True for an earlier incarnation than the one that is known, from a broker that has not heard of
        that: epochs never decrease, over all incarnations. One that never had a leader may be either."""
        known = self._topics.get(topic.name)
        if known is None or same_topic(known.topic_id, topic.topic_id):
            return False
        # Not the epochs of hints: a broker that still has the earlier log may name a leader of the next one.
        newest = max((partition.leader_epoch for partition in known.partitions), default=NO_EPOCH)
        return all(partition.leader_epoch <= newest for partition in topic.partitions)

    def _forget_leaders_before(self, topic: TopicMetadata) -> None:
        """The leaders of an earlier incarnation say nothing of partitions that have none yet, or are gone."""
        known = self._topics.get(topic.name)
        if known is not None and not same_topic(known.topic_id, topic.topic_id):
            for name in [name for name in self._leaders if name.topic == topic.name]:
                del self._leaders[name]

    async def _refresh_periodically(self) -> None:
        age_s = self._settings.metadata_max_age_ms / 1000
        while True:
            await self._clock.sleep(age_s)
            names = sorted(self._topics)
            try:
                for first in range(0, len(names), REFRESHED_TOGETHER_MAX):
                    await self.refresh(names[first : first + REFRESHED_TOGETHER_MAX])
            except StrandlineError as error:
                logger.warning("metadata could not be refreshed: %s", error)

    # --- seeking new leaders -----------------------------------------------------------------

    async def _seek_leaders(self) -> None:
        assert self._scope is not None
        while True:
            await self._doubted.wait()
            self._doubted.clear()
            # The partitions of a broken connection are doubted in one go, and requested together.
            await asyncio.sleep(0)
            doubts, self._doubts = self._doubts, {}
            self._searched |= doubts.keys()
            size = max(1, -(-len(doubts) // LEADER_WAITS_AT_ONCE_MAX))
            waits = [LeaderWait(name, epoch) for name, epoch in doubts.items()]
            for start in range(0, len(waits), size):
                self._scope.spawn(self._seek(waits[start : start + size]), "seek")

    async def _seek(self, waits: Sequence[LeaderWait]) -> None:
        """Request once, and pause where that changed nothing. The listeners of such a partition doubt it
        again if they still need a leader."""
        topics = sorted({wait.name.topic for wait in waits})
        asked_at = self._clock.monotonic()
        try:
            await self.ask(MetadataQuery(topics, waits, LEADER_WAIT_MS), prefer=self._successors(waits[0]))
        except StrandlineError as error:
            logger.info("nobody could be asked for a leader of %s: %s", waits[0].name, error)
        pause_s = backoff_s(self._settings, 1) - (self._clock.monotonic() - asked_at)
        if pause_s > 0 and self._left(waits):
            await self._clock.sleep(pause_s)
        self._searched.difference_update(wait.name for wait in waits)
        left = self._left(waits)  # also one that lost its leader during the pause
        self._note_unled(waits, left)
        for name in left:
            self._notify(name)

    def _note_unled(self, waits: Sequence[LeaderWait], left: Sequence[TopicPartition]) -> None:
        """Log that these have no leader, if that lasts: those who read or write them wait."""
        for name in {wait.name for wait in waits}.difference(left):
            self._unled.pop(name, None)
        lasting = {name: self._unled.setdefault(name, Notice(self._clock)).lasting() for name in left}
        logged = [(seconds, name) for name, seconds in lasting.items() if seconds is not None]
        if logged:
            seconds, name = max(logged)
            others = f" and {len(logged) - 1} other partitions" * (len(logged) > 1)
            gone = name.topic in self._topics and self._partition(name) is None
            what = "there is no such partition" if gone else "no leader is found"
            unled.warning("%s%s: %s, for %.0f s by now", name, others, what, seconds)

    def _left(self, waits: Sequence[LeaderWait]) -> list[TopicPartition]:
        return [wait.name for wait in waits if not self._led_above(wait)]

    def _led_above(self, wait: LeaderWait) -> bool:
        leader = self._leaders.get(wait.name)
        return leader is not None and leader.epoch > wait.above_epoch and leader.broker != NO_BROKER

    def _successors(self, wait: LeaderWait) -> list[int]:
        """The brokers to ask for the next leader: in-sync replicas, then the others. Each call begins with
        another one."""
        partition = self._partition(wait.name)
        if partition is None:
            return []
        leader = self._leaders.get(wait.name)
        failed = NO_BROKER if leader is None else leader.broker
        replicas = [*partition.isr, *(r for r in partition.replicas if r not in partition.isr)]
        others = [replica for replica in replicas if replica != failed]
        turn = self._turns[wait.name] = self._turns.get(wait.name, -1) + 1
        start = turn % len(others) if others else 0
        return [*others[start:], *others[:start], failed]

    def _partition(self, name: TopicPartition) -> PartitionMetadata | None:
        topic = self._topics.get(name.topic)
        if topic is None or name.partition >= len(topic.partitions):
            return None
        return topic.partitions[name.partition]

    async def led_by(self, name: TopicPartition) -> Leader:
        """The partition's leader. Raises UnknownTopicOrPartition, LeaderNotAvailable."""
        topic = await self.topic(name.topic, partitions_min=name.partition + 1)
        if not 0 <= name.partition < len(topic.partitions):
            raise UnknownTopicOrPartition(
                f"{name.topic} has partitions 0 to {len(topic.partitions) - 1}, there is no {name.partition}"
            )
        leader = self._leaders[name]
        if leader.broker == NO_BROKER:
            raise LeaderNotAvailable(f"{name} has no leader now")
        return leader
