"""A member of a group whose coordinator assigns, as Kafka's clients are (KIP-848).

A task sends a heartbeat in each interval: in full when the member joins and after a failure, else with what
is new. What the coordinator wants the member to have is taken and given up within the application's calls:
first what is missing is revoked, then what is new is assigned, and then the next heartbeat says what the
member has. A member that is fenced loses all that it had, and joins again under its id.

It reads the partitions of one topic, and has those of others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import groupby
from typing import Final, NamedTuple
from uuid import UUID

from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.groups.consumers import (
    ConsumerHeartbeatAnswer,
    ConsumerHeartbeatRequest,
    TopicNumbers,
)
from strandline.broker.kafka.wire.groups.offsets import GroupWanted
from strandline.broker.kafka.wire.metadata import MetadataRequest
from strandline.broker.kafka.wire.topics import OfTopic
from strandline.errors import ErrorCode, StrandlineError, UnreleasedInstanceId
from strandline.ids import PartitionId, PartitionKey, TopicId, TopicPartition
from strandline.vocabulary.groups import JOINS, LEAVES, LEAVES_FOR_A_WHILE, ConsumerBeat
from strandline_lab.simulation.kafka.client import AGAIN_S, KafkaClient
from strandline_lab.simulation.kafka.connection import Disconnected
from strandline_lab.simulation.kafka.consumer import KafkaConsumer
from strandline_lab.simulation.kafka.messages import Api, only
from strandline_lab.simulation.member_records import Beat, CommitTry, MemberRecord

OWN_ID_SINCE: Final = 1
"""From this version on, a client makes its id (KIP-1082), and may subscribe to a pattern."""
HEARTBEAT_S: Final = 1.0
"""Until the first answer says how often."""
TOPICS: Final = only(apis.METADATA, 12)
FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})


class Wish(NamedTuple):
    """What a member says of itself. `version`: of ConsumerGroupHeartbeat."""

    topics: tuple[str, ...]
    pattern: str | None
    assignor: str | None
    version: int


class AssignedKafkaConsumer(KafkaConsumer):
    """Used as `KafkaConsumer` is. Raises UnreleasedInstanceId too."""

    commit_api = only(apis.OFFSET_COMMIT, 9)
    offsets_api = only(apis.OFFSET_FETCH, 9)

    def __init__(
        self,
        client: KafkaClient,
        group: str,
        wish: Wish,
        record: MemberRecord,
        *,
        instance: str | None,
        rebalance_timeout_ms: int,
    ) -> None:
        super().__init__(
            client,
            group,
            0,
            instance=instance,
            assignor=wish.assignor or "",
            session_timeout_ms=0,
            rebalance_timeout_ms=rebalance_timeout_ms,
        )
        self._wish = wish
        self._record = record
        self._api: Api[ConsumerHeartbeatRequest, ConsumerHeartbeatAnswer] = only(
            apis.CONSUMER_GROUP_HEARTBEAT, wish.version
        )
        if wish.version >= OWN_ID_SINCE:
            self._member = self._new_id()
        self._generation = JOINS
        self._has: dict[PartitionKey, str] = {}
        """Its partitions, with the names of their topics."""
        self._given: frozenset[PartitionKey] | None = None
        """What the coordinator wants it to have; None: it has not said yet."""
        self._full = True
        """The next heartbeat says everything."""
        self._said: tuple[PartitionKey, ...] | None = None
        self._names: dict[TopicId, str] = {}
        self._interval_s = HEARTBEAT_S
        self._hurry = asyncio.Event()
        self._unreleased: UnreleasedInstanceId | None = None

    def _new_id(self) -> str:
        return str(UUID(int=self._client.random.getrandbits(128)))

    def error(self) -> StrandlineError | None:
        return self._fenced or self._unreleased

    async def commit(self, note: str | None = None) -> None:
        self._record.commits.append(CommitTry(self._member, self._generation, note or ""))
        await super().commit(note)

    # --- heartbeats --------------------------------------------------------------------------

    async def _beat(self) -> None:
        while True:
            if not self._expelled and self.error() is None:
                await self._say()
            self._hurry.clear()
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._hurry.wait()
            except TimeoutError:
                continue

    async def _say(self) -> None:
        request = self._heartbeat()
        if not await self._send(request):
            self._full = True
            self._coordinator = None
            await self._client.host.clock.sleep(AGAIN_S)
            self._hurry.set()

    def _heartbeat(self) -> ConsumerHeartbeatRequest:
        owned = tuple(sorted(self._has))
        request = ConsumerHeartbeatRequest(self._group, self._member, self._generation, self._instance)
        if self._full:
            wish = self._wish
            request = request._replace(
                rebalance_timeout_ms=self._rebalance_timeout_ms,
                topics=None if wish.pattern is not None else wish.topics,
                pattern=wish.pattern,
                assignor=wish.assignor,
            )
        if self._full or owned != self._said:
            request = request._replace(owned=_by_topic(owned))
        self._full, self._said = False, owned
        return request

    async def _send(self, request: ConsumerHeartbeatRequest) -> bool:
        """False if it has to be said again."""
        owned = None if request.owned is None else self._said
        beat = self._record.asks(request.member, request.epoch, owned)
        try:
            answer = await self._client.ask(await self._to_coordinator(), self._api, request)
        except Disconnected:
            return False
        if answer.error:
            return self._is_refused(beat, answer.error)
        given = None if answer.assignment is None else tuple(_keys(answer.assignment.partitions))
        taken = ConsumerBeat(answer.member or "", answer.epoch, answer.interval_ms, given)
        self._record.is_answered(beat, taken)
        if not request.member:
            beat.member = taken.member
        self._interval_s = answer.interval_ms / 1000
        if request.epoch < JOINS or self._expelled:
            return True
        self._member, self._generation = taken.member, taken.epoch
        if given is not None:
            self._given = frozenset(given)
        return True

    def _is_refused(self, beat: Beat, error: int) -> bool:
        """True if the application has to know first."""
        self._refused(error, "a heartbeat")
        if self._expelled or self.error() is not None:
            self._record.is_refused(beat, error)
            return True
        return False

    def _refused(self, error: int, what: str) -> None:
        if error in FENCED:
            self._expelled = True
        elif error == ErrorCode.UNRELEASED_INSTANCE_ID:
            self._unreleased = UnreleasedInstanceId(f"another process is {self._instance!r}")
        elif error != ErrorCode.STALE_MEMBER_EPOCH:  # that is another one by the next time
            super()._refused(error, what)

    # --- within the application's calls --------------------------------------------------------

    async def _be_member(self) -> bool:
        await self._hear_of_losses()
        if self._given is None:
            await self._client.host.clock.sleep(AGAIN_S)
            return False
        if self._given != self._has.keys():
            await self._reconcile(self._given)
            await self._hear_of_losses()
        return True

    async def _hear_of_losses(self) -> None:
        if self._expelled or self.error() is not None:
            self._owned = {}
            lost, self._has = self._at(self._has), {}
            self._given, self._full, self._generation = None, True, JOINS
            self._expelled = False
            self._listener.on_lost(lost)
            self._hurry.set()
        if (error := self.error()) is not None:
            raise error

    async def _reconcile(self, given: frozenset[PartitionKey]) -> None:
        """First what is missing, then what is new."""
        missing = [key for key in self._has if key not in given]
        if missing:
            await self._revoke(self._at(missing))
            for key in missing:
                del self._has[key]
        added = sorted(key for key in given if key not in self._has)
        if any(key.topic_id not in self._names for key in added):
            await self._learn_names()
        if self._expelled:
            return
        known = {key: self._names[key.topic_id] for key in added if key.topic_id in self._names}
        self._has |= known
        names = self._at(known)
        steady = self._client.topic
        self._owned |= dict.fromkeys(sorted(name for name in names if name.topic == steady))
        self._record.knows(
            {name: topic_id for topic_id, name in self._names.items() if name in known.values()}
        )
        self._listener.on_assigned(names)
        if missing or known:
            self._hurry.set()

    def _at(self, keys: Iterable[PartitionKey]) -> set[TopicPartition]:
        return {TopicPartition(self._names[key.topic_id], key.partition) for key in keys}

    async def _learn_names(self) -> None:
        """What these ids are; a topic that is gone has no name, and one that is new may have none yet."""
        try:
            found = await self._client.ask_any(TOPICS, MetadataRequest(None, False))
        except Disconnected:
            return
        self._names |= {TopicId(topic.topic_id): topic.name for topic in found.topics if topic.name}

    def _wanted(self, topic: OfTopic[int]) -> GroupWanted:
        return GroupWanted(self._group, (topic,), self._member, self._generation)

    async def _close(self) -> None:
        if self.error() is not None or self._expelled:
            lost, self._has = self._at(self._has), {}
            self._listener.on_lost(lost)
            return
        await self._revoke(self._at(self._has))
        self._has = {}
        if self._beats is not None:
            self._beats.cancel()
        if self._generation > JOINS and not self._expelled:
            epoch = LEAVES if self._instance is None else LEAVES_FOR_A_WHILE
            await self._send(ConsumerHeartbeatRequest(self._group, self._member, epoch, self._instance))


def _by_topic(keys: Iterable[PartitionKey]) -> tuple[TopicNumbers, ...]:
    topics = groupby(keys, key=lambda key: key.topic_id)
    return tuple(
        [TopicNumbers(topic_id, tuple([key.partition for key in found])) for topic_id, found in topics]
    )


def _keys(topics: Iterable[TopicNumbers]) -> Iterable[PartitionKey]:
    for topic in topics:
        for number in topic.partitions:
            yield PartitionKey(TopicId(topic.topic_id), PartitionId(number))
