"""Exercises one leadership: carries out what `LeaderPartition` decides, in its order.

A turn of the commit loop runs as soon as something happened (an append, a follower's position), so a commit
never waits for a schedule. The commit task does what takes time: writes of the ISR, fsyncs and deadlines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Set

import structlog

from strandline.broker.core.election.traffic import is_busy
from strandline.broker.core.record_steps import Step
from strandline.broker.core.replication.copy_rate import CopyRates
from strandline.broker.core.replication.effects import (
    Acknowledge,
    AdvanceWatermark,
    CloseReplicas,
    CompleteReassignment,
    CutOff,
    StepDown,
    TimeOut,
    WriteIsr,
)
from strandline.broker.core.replication.leader_partition import LeaderPartition
from strandline.broker.core.replication.produce_ticket import OnProduced, Produced, ProduceTicket
from strandline.broker.events.replica_events import EventRecorder
from strandline.broker.membership.confirmation import (
    ASK_ZOOKEEPER_AFTER_S,
    FollowerFlow,
    all_follow,
    followed_lately,
    leader_of_record,
)
from strandline.broker.replicas.leading.isr_writer import IsrWriter
from strandline.broker.replicas.leading.reassignment import Reassigning
from strandline.broker.replicas.leading.turn_timer import TurnTimer
from strandline.broker.replicas.local_replica import LocalReplica
from strandline.broker.storage.admission import Appended
from strandline.config.services.broker import BrokerSettings
from strandline.errors import (
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OutcomeUnknown,
    RequestTimedOut,
    StorageBusy,
    StorageFailed,
)
from strandline.host import Host
from strandline.ids import ACKS_ALL, INTERNAL_PREFIX, BrokerEpoch, BrokerId, Offset
from strandline.ports import Coordination
from strandline.security.principal import Principal
from strandline.vocabulary.log import Transactional
from strandline.vocabulary.metadata import IsrMember, PartitionState, Registration
from strandline.vocabulary.transactions import Marker

logger = structlog.get_logger(__name__)

STORAGE_RETRY_S = 0.05
"""Pause before a sync that found no descriptor for its file is tried again."""


class Leadership:
    """The leadership of one partition in one epoch. `run` is its commit task; the other methods never
    await."""

    def __init__(
        self,
        replica: LocalReplica,
        state: PartitionState,
        version: int,
        *,
        settings: BrokerSettings,
        session: Coordination,
        host: Host,
        live: Mapping[BrokerId, Registration],
        suspects: Set[BrokerEpoch] = frozenset(),
        silent: Set[BrokerEpoch] = frozenset(),
        recorder: EventRecorder,
        on_step_down: Callable[[PartitionState | None], None],
        on_handed_over: Callable[[BrokerId], None],
    ) -> None:
        self.replica = replica
        self.epoch = state.leader_epoch
        self.draining = False
        """True while leadership is being handed over: nothing new is accepted."""
        self._ended = False
        self.followers: dict[FollowerFlow, None] = {}
        """Woken after each append, in the order in which they began."""
        self.copies = CopyRates()
        """The pace at which replicas that a reassignment adds are filled."""
        self.in_sync_since: dict[IsrMember, float] = {}
        """For each member of the ISR of record: since when this leader knows it there."""
        self._members_seen: tuple[IsrMember, ...] = ()
        self._settings = settings
        self._session = session
        self._clock, self._threads = host.clock, host.threads
        self._recorder = recorder
        self.step_down = on_step_down
        """Stops leading: another epoch leads, or this broker cannot continue (None)."""
        self.retire = on_handed_over
        """Stops leading after a resignation, and follows the successor; NO_BROKER: none was named."""
        self._isr_write: WriteIsr | None = None
        self._move: CloseReplicas | CompleteReassignment | None = None
        self._isr_writer = IsrWriter(replica, session, host.clock)
        self._reassigning = Reassigning(replica, session, recorder, host)
        self._wake = asyncio.Event()
        self._drained = asyncio.Event()
        self._timer = TurnTimer(host.clock, self.turn)
        self.core: LeaderPartition[ProduceTicket] = LeaderPartition(
            me=state.leader,
            epoch=state.leader_epoch,
            log_end_offset=Offset(replica.log.log_end_offset),
            high_watermark=replica.high_watermark,
            assignment=replica.assignment,
            members=state.isr,
            version=version,
            live=live,
            suspects=suspects,
            silent=silent,
            min_insync=replica.config.min_insync(replica.assignment.replication_factor),
            keep_in_sync_s=settings.keep_in_sync_ms / 1000,
            close_s=settings.reassignment_close_ms / 1000,
            queue_entries_max=settings.commit_queue_entries_max,
            now=host.clock.monotonic(),
            lossy_epoch=state.lossy_epoch,
        )

    def ended(self) -> bool:
        """True once this broker no longer leads in this epoch."""
        return self._ended

    def certain(self) -> bool:
        """True if no other broker can lead now: the other in-sync replicas confirmed so recently that none of
        them can stand yet (`confirmation`). It does not cover replicas outside the ISR: an unclean election
        needs the end of this broker's session."""
        if self.draining or self.core.handing_over or self.ended():
            return False
        others = self.core.isr.maximal() - {self.core.me}
        return followed_lately(self.followers, others, self._clock.monotonic())

    async def assured(self) -> bool:
        """True if no other broker led before this call. If that is not `certain`, asks the other in-sync
        replicas, and ZooKeeper if one of them does not answer."""
        if self.certain():
            return True
        others = self.core.isr.maximal() - {self.core.me}
        if not await all_follow(self.followers, others, ASK_ZOOKEEPER_AFTER_S):
            name, timeout_s = self.replica.name, self._settings.keep_in_sync_ms / 1000
            of_record = await leader_of_record(self._session, name, timeout_s)
            return of_record == (self.core.me, self.epoch) and not self.ended()
        return not self.ended()

    async def confirmed(self) -> bool:
        """True if the other in-sync replicas confirm that none of them led before this call. No answer
        within KeepInSyncTime is a refusal."""
        others = self.core.isr.maximal() - {self.core.me}
        follow = await all_follow(self.followers, others, self._settings.keep_in_sync_ms / 1000)
        return follow and not self.ended()

    # --- produce ---------------------------------------------------------------------------

    def produce(
        self,
        records: bytes,
        *,
        acks: int,
        timeout_ms: int,
        done: OnProduced,
        expected_offset: int | None = None,
        by: Principal | None = None,
        any_first_sequence: bool = False,
        transaction: Transactional | None = None,
    ) -> None:
        """Appends one batch. `done` is called once, now or when it commits. Last three: see `ProducerState`.

        Raises, before anything is written, NotLeaderOrFollower, NotEnoughReplicas and the log's errors.
        """
        self._check_may_append(acks)
        log, trace = self.replica.log, self.replica.trace
        received = 0.0 if trace is None else trace.now()
        try:
            appended = log.appending.as_leader(
                records,
                self.epoch,
                now_ms=self._clock.wall_ms(),
                expected_offset=expected_offset,
                by=by,
                any_first_sequence=any_first_sequence,
                from_client=not self.replica.name.topic.startswith(INTERNAL_PREFIX),
                transaction=transaction,
            )
        except StorageFailed:
            self.step_down(None)
            raise
        if trace is not None and not appended.duplicate:
            done = trace.produced(appended.base_offset, appended.next_offset, received, acks, done)
        self._appended(appended, len(records), acks=acks, timeout_ms=timeout_ms, done=done)

    def produce_marker(self, marker: Marker, *, timeout_ms: int, done: OnProduced) -> None:
        """Appends the end of a producer's transaction. `done` is called once, when it commits.

        Raises, before anything is written: NotLeaderOrFollower, NotEnoughReplicas, StorageFailed,
        StorageBusy, TransactionCoordinatorFenced, InvalidProducerEpoch.
        """
        self._check_may_append(ACKS_ALL)
        try:
            appended = self.replica.log.appending.marker_as_leader(
                marker, self.epoch, now_ms=self._clock.wall_ms()
            )
        except StorageFailed:
            self.step_down(None)
            raise
        self._appended(appended, 0, acks=ACKS_ALL, timeout_ms=timeout_ms, done=done)

    def _check_may_append(self, acks: int) -> None:
        """Raises NotLeaderOrFollower, NotEnoughReplicas."""
        if self.draining or self.core.handing_over or self.ended():
            raise NotLeaderOrFollower(f"{self.replica.name} is being handed over")
        core = self.core
        if acks != ACKS_ALL:
            return
        if not core.enough_in_sync:
            raise NotEnoughReplicas(
                f"{self.replica.name} has {core.isr.size_min()} in-sync replicas, "
                f"min.insync.replicas is {core.min_insync}",
                limit=core.min_insync,
            )
        if core.queue.full:
            raise NotEnoughReplicas(
                f"{len(core.queue)} requests wait for {self.replica.name} already",
                limit=core.queue.entries_max,
            )

    def _appended(
        self, appended: Appended, size: int, *, acks: int, timeout_ms: int, done: OnProduced
    ) -> None:
        """Takes the turn after a batch of this size came to the log, now or by an earlier request."""
        core, log, counts = self.core, self.replica.log, self.replica.counts
        at, new = appended.base_offset, not appended.duplicate
        produced = Produced(at, log.log_start_offset, new, appended.append_time_ms)
        counts.produce_requests += 1
        now = self._clock.monotonic()
        if acks == ACKS_ALL:
            core.queue.push(
                Offset(appended.next_offset), now + timeout_ms / 1000, ProduceTicket(produced, done)
            )
        if new:
            counts.messages_in += appended.next_offset - at
            counts.bytes_in += size
            self.replica.traffic_at = now
            if log.needs_flush(now):
                self._wake.set()  # the commit task syncs first, and then counts the records in the LEO
            else:
                core.appended(Offset(log.log_end_offset), now)
            for follower in self.followers:
                follower.wake()
        if acks != ACKS_ALL:
            done(produced)
        self.turn()

    # --- events ------------------------------------------------------------------------------

    def fetched(
        self, broker: BrokerId, broker_epoch: BrokerEpoch, log_end_offset: int, *, subscription: int
    ) -> None:
        """Notes a follower's position in this epoch. The caller calls `turn` after the last position."""
        if (trace := self.replica.trace) is not None and (known := self.core.follower_end(broker)) >= 0:
            trace.passed(Step.REPLICATED, known, log_end_offset, follower=broker)
        now = self._clock.monotonic()
        self.core.fetched(broker, broker_epoch, Offset(log_end_offset), now, subscription=subscription)

    def stopped_fetching(self, broker: BrokerId, broker_epoch: BrokerEpoch, *, subscription: int) -> None:
        """Notes the end of a flow. A replica that was asked to close leaves the ISR by this alone. All flows
        of a broker that is gone end together: an idle partition reacts when the manager lets it, or when
        the member is late."""
        now = self._clock.monotonic()
        self.core.stopped_fetching(broker, broker_epoch, now, subscription=subscription)
        if self.is_busy(now):
            self.turn()
        else:
            self._timer.set(now + self._settings.keep_in_sync_ms / 1000)

    def reconfigured(self) -> None:
        """Notes that the replica's config or assignment may have changed."""
        replica = self.replica
        if replica.reassignment is None:
            self.copies.clear()
        min_insync = replica.config.min_insync(replica.assignment.replication_factor)
        self.core.assign(replica.assignment, min_insync, self._clock.monotonic())
        for follower in tuple(self.followers):  # some may have to subscribe again
            follower.wake()
        self.turn()

    def live_changed(
        self,
        live: Mapping[BrokerId, Registration],
        suspects: Set[BrokerEpoch] = frozenset(),
        silent: Set[BrokerEpoch] = frozenset(),
        *,
        turn: bool = True,
    ) -> None:
        """Notes which brokers are alive. Without `turn` the caller calls it later; an append does not wait
        for that, since it has a turn of its own."""
        self.core.live_changed(live, suspects, silent)
        if turn:
            self.turn()

    def is_busy(self, now: float) -> bool:
        """True if clients may wait for this partition, or its leadership or its replicas move."""
        replica = self.replica
        uncommitted = self.core.high_watermark < replica.log.log_end_offset
        moves = self.draining or self.core.handing_over or replica.reassignment is not None
        return uncommitted or moves or is_busy(replica.traffic_at, now)

    def link_changed(self, connected: bool) -> None:
        """Notes whether ZooKeeper can be written (while it cannot, ISR changes wait)."""
        self.core.isr_writable = connected
        self.turn()

    def turn(self) -> None:
        """Runs one turn of the commit loop, and carries out its effects in order."""
        if self.ended():
            return
        core = self.core
        if core.isr.members is not self._members_seen:
            self._note_members()
        core.accepted_end = Offset(self.replica.log.log_end_offset)
        for effect in core.step(self._clock.monotonic()):
            match effect:
                case AdvanceWatermark(high_watermark):
                    self.replica.raise_watermark(high_watermark)
                case Acknowledge(tickets):
                    for ticket in tickets:
                        ticket.done(ticket.produced)
                case TimeOut(tickets):
                    self._time_out(tickets)
                case WriteIsr():
                    self._isr_write = effect
                    self._wake.set()
                case CloseReplicas() | CompleteReassignment():
                    self._move = effect
                    self._wake.set()
                case CutOff():
                    self._cut_off(effect)
                case StepDown():
                    raise AssertionError("a turn never steps down")
        if self.draining and not core.queue and core.high_watermark == core.accepted_end:
            self._drained.set()
        self._timer.set(core.next_wakeup())

    def _cut_off(self, effect: CutOff) -> None:
        """Stops waiting for a replica that does not close, so that its reassignment continues."""
        logger.error(
            "a replica did not close: the reassignment continues without it",
            partition=str(self.replica.name),
            epoch=self.epoch,
            brokers=list(effect.brokers),
            waited_s=effect.close_s,
        )
        for follower in tuple(self.followers):  # their flows end
            follower.wake()

    def _note_members(self) -> None:
        now, self._members_seen = self._clock.monotonic(), self.core.isr.members
        self.in_sync_since = {m: self.in_sync_since.get(m, now) for m in self._members_seen}

    def _time_out(self, tickets: Sequence[ProduceTicket]) -> None:
        self.replica.counts.produce_failures += len(tickets)
        for ticket in tickets:
            ticket.done(
                RequestTimedOut(
                    f"{self.replica.name} offset {ticket.produced.base_offset} was appended, but did not "
                    f"reach all in-sync replicas {list(self.core.state.isr_ids)} in time"
                )
            )

    # --- the commit task ---------------------------------------------------------------------

    async def run(self) -> None:
        """Writes the ISR and syncs the log when a turn asks for it, until this leadership ends."""
        self.turn()
        while not self.ended():
            await self._wake.wait()
            self._wake.clear()
            if self.core.log_end_offset < self.replica.log.log_end_offset:
                await self._count()
            if not self.ended() and (write := self._isr_write) is not None:
                self._isr_write = None
                await self._write_isr(write)
            if not self.ended() and (move := self._move) is not None:
                self._move = None
                await self._reassign(move)

    async def _count(self) -> None:
        """Counts the appended records, after a sync if one is required (unless the flush task synced)."""
        log = self.replica.log
        end = log.log_end_offset
        try:
            if log.needs_flush(self._clock.monotonic()):
                await self._threads.run(log.flush)
        except StorageBusy:
            await self._clock.sleep(STORAGE_RETRY_S)
            self._wake.set()
            return
        except StorageFailed:
            self.step_down(None)
            return
        if not self.ended():
            if end > self.core.log_end_offset:  # later records that need no sync count already
                self.core.appended(Offset(end), self._clock.monotonic())
            if log.log_end_offset > end:
                self._wake.set()
            self.turn()

    async def _write_isr(self, write: WriteIsr) -> None:
        """Writes the ISR, and continues from what ZooKeeper then has (CORRECTNESS I4, E7)."""
        state, version = await self._isr_writer.write(write, on_join_refused=self.core.join_refused)
        if self.ended():
            return
        if state is None or self.core.isr_read(state, version) is not None:
            self.step_down(state)
            return
        self.replica.trail.written(state.trail, self._recorder)
        if state.isr == write.state.isr:
            self.replica.counts.broker.isr_changed(write.left, write.joined)
            logger.info(
                "in-sync replicas changed",
                partition=str(self.replica.name),
                epoch=self.epoch,
                isr=list(state.isr_ids),
                left=list(write.left),
                joined=list(write.joined),
                reason=write.reason,
                high_watermark=self.core.high_watermark,
            )
        self.replica.announce()
        self.turn()

    async def _reassign(self, move: CloseReplicas | CompleteReassignment) -> None:
        """Carries out a step of the reassignment, and continues from what ZooKeeper has then."""
        match move:
            case CloseReplicas():
                if not await self._reassigning.close(move, self.core.me, self.epoch):
                    self.core.close_again()
            case CompleteReassignment():
                state, version = await self._reassigning.complete(move, self.core.me)
                if self.ended():
                    return
                if state is None or self.core.isr_read(state, version) is not None:
                    if state is not None and state == move.state:
                        self.retire(move.successor)
                    else:
                        self.step_down(state)
                    return
                self.replica.announce()
        if not self.ended():
            self.reconfigured()

    # --- the end -----------------------------------------------------------------------------

    async def drained(self) -> None:
        """Accepts nothing more, and returns when everything accepted is committed."""
        self.draining = True
        self.turn()
        await self._drained.wait()

    def undrain(self) -> None:
        """Accepts requests again after a handover that did not happen. No accepted record is lost."""
        if not self.ended():
            self.draining = False
            self._drained.clear()

    def end(self) -> None:
        """Ends this epoch here: every queued request fails with an unknown outcome (H6)."""
        if self.ended():
            return
        self._ended = True
        self._timer.cancel()
        self._wake.set()
        self._drained.set()
        for follower in tuple(self.followers):
            follower.wake()
        for ticket in self.core.resign():
            self.replica.counts.produce_failures += 1
            ticket.done(
                OutcomeUnknown(
                    f"leadership of {self.replica.name} ended in epoch {self.epoch} before offset "
                    f"{ticket.produced.base_offset} was committed"
                )
            )


def turn_all(leaderships: Iterable[Leadership]) -> None:
    """In one turn of the event loop, so that their writes of ISRs are sent together."""
    for leadership in leaderships:
        leadership.turn()
