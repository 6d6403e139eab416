"""A member of a group, as Kafka's clients are: it joins, syncs and fetches within its calls of `getmany`.

Only heartbeats are sent meanwhile. So the listener is called within `getmany` and `close`, when all records
that were handed out are finished.

Of an unsteady topic it commits the leader epoch of the record before each offset, and before it reads at a
position it asks the leader whether the log still has that record (KIP-320).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from strandline.broker.kafka.wire.coordinator import FindCoordinatorRequest
from strandline.broker.kafka.wire.fetch import FetchRequest, PartitionPosition
from strandline.broker.kafka.wire.groups.membership import (
    AssignedMember,
    HeartbeatRequest,
    JoinGroupAnswer,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberThatLeaves,
    OfferedProtocol,
    SyncGroupRequest,
)
from strandline.broker.kafka.wire.groups.offsets import (
    GroupWanted,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetToCommit,
)
from strandline.broker.kafka.wire.offsets import EpochEndsRequest, PartitionEpoch
from strandline.broker.kafka.wire.topics import OfTopic, each_partition
from strandline.client.reading.records import ConsumerRecord
from strandline.consumer.group.listener import RebalanceListener
from strandline.errors import ErrorCode, FencedInstanceId, OutcomeUnknown, StrandlineError
from strandline.ids import TopicPartition
from strandline.records import Record, decode_batch, iterate
from strandline.vocabulary.groups import GroupMetadata
from strandline.vocabulary.parsing.consumer_protocol import COOPERATIVE_STICKY, Assignment, Subscription
from strandline_lab.simulation.kafka.assigning import assign
from strandline_lab.simulation.kafka.client import AGAIN_S, LOOK_AGAIN, NOT_LED, KafkaClient, Led
from strandline_lab.simulation.kafka.connection import Disconnected, KafkaConnection
from strandline_lab.simulation.kafka.messages import (
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    OFFSET_FOR_LEADER_EPOCH,
    SYNC_GROUP,
)

CONSUMER: Final = "consumer"
NO_GENERATION: Final = -1
UNKNOWN: Final = -1
"""In the place of an epoch."""
FETCH_WAIT_MS: Final = 200
BYTES_MAX: Final = 64 * 1024
SLACK_S: Final = 2.0
"""A join and a sync wait for other members as long as the group does, and this much longer."""

OnRecords = Callable[[int, int, Sequence[Record]], None]
"""Gets a partition, a leader epoch, and records in their order."""

_ELSEWHERE: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_LATER: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_EXPELLED: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


class KafkaConsumer:
    """The member of one group that reads all partitions of one topic. Used as an async context manager."""

    commit_api = OFFSET_COMMIT
    offsets_api = OFFSET_FETCH

    def __init__(
        self,
        client: KafkaClient,
        group: str,
        partitions: int,
        *,
        instance: str | None,
        assignor: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        unsteady: OnRecords | None = None,
    ) -> None:
        """`unsteady`: gets the records of a topic that may be made anew under its name, and whose log
        unclean elections may cut."""
        self._client = client
        self._unsteady = unsteady
        self._group = group
        self._instance = instance
        self._assignor = assignor
        self._cooperative = assignor == COOPERATIVE_STICKY
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._partitions = [TopicPartition(client.topic, number) for number in range(partitions)]
        self._listener: RebalanceListener = RebalanceListener()
        self._coordinator: str | None = None
        self._member = ""
        self._generation = NO_GENERATION
        self._rejoin = True
        self._expelled = False
        """The group went on without this member, and the listener does not know yet."""
        self._fenced: FencedInstanceId | None = None
        self._owned: dict[TopicPartition, int | None] = {}
        """With the offset of the next record; None: not known yet."""
        self._epochs: dict[TopicPartition, int] = {}
        """Of the records before those offsets."""
        self._valid: dict[TopicPartition, Led] = {}
        """The leaders that have confirmed them."""
        self._beats: asyncio.Task[None] | None = None

    # --- as the application sees it ----------------------------------------------------------

    async def __aenter__(self) -> KafkaConsumer:
        self._beats = asyncio.get_running_loop().create_task(self._beat())
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self._close()
        finally:
            if self._beats is not None:
                self._beats.cancel()
            self._client.close()

    def subscribe(self, topics: Sequence[str], listener: RebalanceListener) -> None:
        self._listener = listener

    def error(self) -> StrandlineError | None:
        return self._fenced

    def group_metadata(self) -> GroupMetadata:
        protocol = "cooperative" if self._cooperative else "eager"
        return GroupMetadata(
            self._group, self._member, self._generation, self._instance, protocol, self._assignor
        )

    async def getmany(
        self, *, timeout_ms: int, max_records: int
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Raises FencedInstanceId."""
        clock = self._client.host.clock
        end = clock.monotonic() + timeout_ms / 1000
        while True:
            if await self._be_member() and (found := await self._fetch(max_records)):
                return found
            if clock.monotonic() >= end:
                return {}

    async def commit(self, note: str | None = None) -> None:
        """Commit the positions, with these metadata: what was handed out is finished. Raises
        StrandlineError."""
        known = {name: offset for name, offset in self._owned.items() if offset is not None}
        if not known:
            return
        topic = OfTopic(
            self._client.topic,
            tuple(
                OffsetToCommit(name.partition, offset, self._epochs.get(name, UNKNOWN), note)
                for name, offset in known.items()
            ),
        )
        request = OffsetCommitRequest(self._group, self._generation, self._member, (topic,), self._instance)
        try:
            connection = await self._to_coordinator()
            answer = await self._client.ask(connection, self.commit_api, request)
        except Disconnected as error:
            self._coordinator = None
            raise OutcomeUnknown(f"the commit has no answer: {error}") from None
        for _, result in each_partition(answer.topics):
            if result.error:
                self._refused(result.error, "a commit")
                raise self._fenced or OutcomeUnknown(f"not committed: error {result.error}")

    # --- the coordinator ---------------------------------------------------------------------

    async def _to_coordinator(self) -> KafkaConnection:
        """Raises Disconnected."""
        if self._coordinator is None:
            answer = await self._client.ask_any(FIND_COORDINATOR, FindCoordinatorRequest((self._group,)))
            (found,) = answer.found
            if found.error:
                raise Disconnected(f"there is no coordinator: error {found.error}")
            self._coordinator = f"{found.host}:{found.port}"
        return await self._client.connection_to(self._coordinator)

    def _refused(self, error: int, what: str) -> None:
        """What an error of the coordinator means for this member."""
        if error in _ELSEWHERE:
            self._coordinator = None
        elif error == ErrorCode.REBALANCE_IN_PROGRESS:
            self._rejoin = True
        elif error in _EXPELLED:
            self._rejoin = self._expelled = True
            if error == ErrorCode.UNKNOWN_MEMBER_ID:
                self._member = ""
        elif error == ErrorCode.FENCED_INSTANCE_ID:
            self._fenced = FencedInstanceId(f"another process is {self._instance!r} now")
        elif error not in _LATER:
            self._client.wrong.append(f"{self._client.name}: {what} was refused with error {error}")

    async def _beat(self) -> None:
        """Sends heartbeats while this is a member."""
        while True:
            await self._client.host.clock.sleep(self._session_timeout_ms / 4000)
            if self._generation == NO_GENERATION or self._rejoin or self._fenced is not None:
                continue
            request = HeartbeatRequest(self._group, self._generation, self._member, self._instance)
            generation = self._generation
            try:
                answer = await self._client.ask(await self._to_coordinator(), HEARTBEAT, request)
            except Disconnected:
                self._coordinator = None
                continue
            if answer.error and generation == self._generation:
                self._refused(answer.error, "a heartbeat")

    # --- membership --------------------------------------------------------------------------

    async def _be_member(self) -> bool:
        """True if this is a member of a generation. Raises FencedInstanceId."""
        await self._hear_of_losses()
        if not self._rejoin:
            return True
        if not self._cooperative:
            await self._revoke(set(self._owned))
        try:
            if await self._join():
                return True
        except Disconnected:
            self._coordinator = None
        await self._hear_of_losses()
        await self._client.host.clock.sleep(AGAIN_S)
        return False

    async def _hear_of_losses(self) -> None:
        if self._expelled or self._fenced is not None:
            self._expelled = False
            lost, self._owned = set(self._owned), {}
            self._listener.on_lost(lost)
            self._generation = NO_GENERATION
        if self._fenced is not None:
            raise self._fenced

    async def _revoke(self, names: set[TopicPartition]) -> None:
        if not names:
            return
        await self._listener.on_revoked(names)  # type: ignore[misc]  # ours is a coroutine
        for name in names:
            self._owned.pop(name, None)

    async def _join(self) -> bool:
        """One attempt to join and sync. Raises Disconnected."""
        connection = await self._to_coordinator()
        wait_s = self._rebalance_timeout_ms / 1000 + SLACK_S
        joined = await self._client.ask(connection, JOIN_GROUP, self._request(), wait_s=wait_s)
        if joined.error == ErrorCode.MEMBER_ID_REQUIRED:
            self._member = joined.member
            joined = await self._client.ask(connection, JOIN_GROUP, self._request(), wait_s=wait_s)
        if joined.error:
            self._refused(joined.error, "a join")
            return False
        self._member, self._generation = joined.member, joined.generation
        sync = SyncGroupRequest(
            self._group,
            joined.generation,
            joined.member,
            self._assigned(joined),
            self._instance,
            CONSUMER,
            joined.protocol,
        )
        self._rejoin = False
        synced = await self._synced(connection, sync, wait_s)
        if synced is None:
            return False
        await self._take({*Assignment.decode(synced).assigned})
        return True

    async def _synced(
        self, connection: KafkaConnection, sync: SyncGroupRequest, wait_s: float
    ) -> bytes | None:
        """The assignment; None: this member has to join again. Raises Disconnected."""
        try:
            answer = await self._client.ask(connection, SYNC_GROUP, sync, wait_s=wait_s)
        except Disconnected:
            self._rejoin = True
            raise
        if answer.error:
            self._rejoin = True
            self._refused(answer.error, "a sync")
            return None
        return answer.assignment

    def _request(self) -> JoinGroupRequest:
        topics = (self._client.topic,)
        subscription = (
            Subscription(3, topics, tuple(sorted(self._owned)), self._generation)
            if self._cooperative
            else Subscription(0, topics)
        )
        return JoinGroupRequest(
            self._group,
            self._session_timeout_ms,
            self._rebalance_timeout_ms,
            self._member,
            CONSUMER,
            (OfferedProtocol(self._assignor, subscription.encode()),),
            self._instance,
        )

    def _assigned(self, joined: JoinGroupAnswer) -> tuple[AssignedMember, ...]:
        """What this member assigns, if it leads."""
        if joined.leader != joined.member or not joined.members:
            return ()
        members = {each.member: Subscription.decode(each.metadata) for each in joined.members}
        made = assign(self._assignor, members, self._partitions)
        return tuple(AssignedMember(member, each.encode()) for member, each in made.items())

    async def _take(self, assigned: set[TopicPartition]) -> None:
        revoked = set(self._owned) - assigned
        if revoked:
            await self._revoke(revoked)
            self._rejoin = True
        added = assigned - set(self._owned)
        self._owned |= dict.fromkeys(sorted(added))
        self._listener.on_assigned(added)

    async def _close(self) -> None:
        if self._fenced is not None or self._expelled:
            lost, self._owned = set(self._owned), {}
            self._listener.on_lost(lost)
            return
        await self._revoke(set(self._owned))
        if self._instance is not None or not self._member:
            return
        try:
            connection = await self._to_coordinator()
            leave = LeaveGroupRequest(self._group, (MemberThatLeaves(self._member),))
            await self._client.ask(connection, LEAVE_GROUP, leave)
        except Disconnected:
            pass

    # --- records -----------------------------------------------------------------------------

    async def _fetch(self, records_max: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Records of one leader's partitions. Empty if there are none now."""
        if not await self._find_positions() or not self._owned:
            await self._client.host.clock.sleep(AGAIN_S)
            return {}
        if NOT_LED.broker in self._leaders():
            await self._client.refresh()
        brokers = sorted(self._leaders() - {NOT_LED.broker})
        if not brokers:
            return {}
        broker = self._client.random.choice(brokers)
        try:
            places = await self._places(broker)
            request = FetchRequest(FETCH_WAIT_MS, 1, BYTES_MAX, 0, (OfTopic(self._client.topic, places),))
            answer = await self._client.ask(await self._client.connection(broker), FETCH, request)
        except Disconnected:
            await self._client.refresh()
            return {}
        taken: dict[TopicPartition, list[ConsumerRecord]] = {}
        for topic, found in each_partition(answer.topics):
            name = TopicPartition(topic, found.partition)
            if found.error:
                if found.error == ErrorCode.OFFSET_OUT_OF_RANGE and self._unsteady is not None:
                    if name in self._owned:
                        self._move(name, 0, UNKNOWN)
                elif found.error not in LOOK_AGAIN:
                    self._client.wrong.append(f"{self._client.name}: a fetch failed with error {found.error}")
                await self._client.refresh()
            elif name in self._owned and (left := records_max - sum(map(len, taken.values()))) > 0:
                taken |= self._read(name, found.records, left)
        return taken

    async def _places(self, broker: int) -> tuple[PartitionPosition, ...]:
        """Where to read in the partitions that this broker leads. Raises Disconnected."""
        if self._unsteady is not None:
            await self._validate(broker)
        led = {name: self._client.led(name.partition) for name in self._owned}
        places = tuple(
            PartitionPosition(name.partition, led[name].epoch, offset, BYTES_MAX)
            for name, offset in self._owned.items()
            if offset is not None
            and led[name].broker == broker
            and (self._unsteady is None or self._valid.get(name) == led[name])
        )
        if not places:
            raise Disconnected("no position is sure")
        return places

    def _leaders(self) -> set[int]:
        """The brokers that lead its partitions, and that of `NOT_LED` if not all are known to be led."""
        return {self._client.led(name.partition).broker for name in self._owned}

    def _read(
        self, name: TopicPartition, data: bytes, records_max: int
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        records: list[ConsumerRecord] = []
        position = self._owned[name]
        assert position is not None, f"{name} was fetched without a position"
        for header in iterate(data):
            if header.next_offset <= position:
                continue
            wanted = decode_batch(data, header, from_offset=position)[: records_max - len(records)]
            records += [
                ConsumerRecord(*name, each.offset, each.timestamp, each.key, each.value, ())
                for each in wanted
            ]
            if wanted:
                position = wanted[-1].offset + 1
                if self._unsteady is not None:
                    self._epochs[name] = header.leader_epoch
                    self._unsteady(name.partition, header.leader_epoch, wanted)
        self._owned[name] = position
        return {name: records} if records else {}

    async def _find_positions(self) -> bool:
        """Ask for the committed offsets of new partitions. False: they are not known yet."""
        names = [name for name, offset in self._owned.items() if offset is None]
        if not names:
            return True
        topic = OfTopic(self._client.topic, tuple(name.partition for name in names))
        request = OffsetFetchRequest((self._wanted(topic),))
        try:
            answer = await self._client.ask(await self._to_coordinator(), self.offsets_api, request)
        except Disconnected:
            self._coordinator = None
            return False
        (found,) = answer.groups
        errors = {found.error, *(each.error for _, each in each_partition(found.topics))} - {0}
        for error in sorted(errors):
            self._refused(error, "a question for offsets")
        if errors:
            return False
        for name, each in each_partition(found.topics):
            self._move(TopicPartition(name, each.partition), max(0, each.offset), each.leader_epoch)
        return True

    def _wanted(self, topic: OfTopic[int]) -> GroupWanted:
        return GroupWanted(self._group, (topic,))

    def _move(self, name: TopicPartition, offset: int, epoch: int) -> None:
        self._owned[name] = offset
        self._valid.pop(name, None)
        if self._unsteady is not None:
            self._epochs[name] = epoch

    async def _validate(self, broker: int) -> None:
        """Have this leader confirm the positions in its partitions, or name others. Raises Disconnected."""
        led = {name: self._client.led(name.partition) for name in self._owned}
        doubtful = [
            name
            for name, offset in self._owned.items()
            if offset is not None and led[name].broker == broker and self._valid.get(name) != led[name]
        ]
        if not doubtful:
            return
        epochs = tuple(
            PartitionEpoch(name.partition, led[name].epoch, max(0, self._epochs.get(name, UNKNOWN)))
            for name in doubtful
        )
        asked = EpochEndsRequest((OfTopic(self._client.topic, epochs),))
        connection = await self._client.connection(broker)
        answer = await self._client.ask(connection, OFFSET_FOR_LEADER_EPOCH, asked)
        for topic, found in each_partition(answer.topics):
            name = TopicPartition(topic, found.partition)
            offset = self._owned.get(name)
            if offset is None or found.error:
                continue
            if self._epochs.get(name, UNKNOWN) != UNKNOWN and found.end_offset < offset:
                self._move(name, max(0, found.end_offset), found.epoch)
            self._valid[name] = led[name]
