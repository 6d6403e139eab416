"""The leader's side of the model: `leadership.py` and `leader_end.py` of the broker around the real core."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import TYPE_CHECKING

from strandline.broker.core.replication.effects import Acknowledge, AdvanceWatermark, TimeOut, WriteIsr
from strandline.broker.core.replication.leader_partition import LeaderPartition
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.ids import BrokerEpoch, BrokerId, Offset
from strandline.vocabulary.metadata import PartitionState, Registration
from tests.simulation.coordination import Write
from tests.simulation.memory_log import Record
from tests.simulation.rules import Rule
from tests.simulation.streams import Progress, Push, Stream, Subscribe, Subscription, Unsubscribe
from tests.simulation.truth import Ticket

if TYPE_CHECKING:
    from tests.simulation.process import Process

KEEP_IN_SYNC_S = 1.0
PRODUCE_TIMEOUT_S = 4.0


class ModelLeadership:
    """One epoch of one broker: carries out what `LeaderPartition` decides."""

    def __init__(self, process: Process, state: PartitionState, version: int) -> None:
        world = process.world
        self.process = process
        self.epoch = state.leader_epoch
        self.ended = False
        self.draining = False
        self._world = world
        self.core: LeaderPartition[Ticket] = LeaderPartition(
            me=state.leader,
            epoch=state.leader_epoch,
            log_end_offset=Offset(process.log.end),
            high_watermark=Offset(process.high_watermark),
            assignment=PartitionAssignment(world.assigned),
            members=state.isr,
            version=version,
            live=process.live,
            suspects=process.suspects.lives,
            min_insync=1 if world.broken is Rule.ENOUGH_IN_SYNC else world.min_insync,
            keep_in_sync_s=KEEP_IN_SYNC_S,
            close_s=60,
            queue_entries_max=1_000,
            now=world.now,
        )
        if world.broken is Rule.REACH_EPOCH_START:
            self.core.epoch_start = Offset(0)

    # --- what happens ------------------------------------------------------------------------

    def produce(self, value: int) -> bool:
        """Append one record for acks=all; False if it is refused before anything is written."""
        core, log, world = self.core, self.process.log, self._world
        if self.ended or self.draining or not core.enough_in_sync:
            return False
        record = Record(self.epoch, value)
        ticket = Ticket(log.end, record)
        log.epochs.assign(self.epoch, log.end)  # changes nothing after `begin_epoch`
        log.records.append(record)
        world.truth.appended(self.process.me, ticket.offset, (record,))
        core.queue.push(Offset(log.end), world.now + PRODUCE_TIMEOUT_S, ticket)
        core.appended(Offset(log.end), world.now)
        self.turn()
        return True

    def fetched(self, stream: Stream, sub_id: int, end: int) -> None:
        life = stream.life
        if self._world.broken is Rule.POSITION_OF_THIS_LIFE:
            registration = self.process.live.get(stream.follower)
            life = life if registration is None else registration.epoch
        self.core.fetched(stream.follower, life, Offset(end), self._world.now, subscription=sub_id)

    def live_changed(self, live: Mapping[BrokerId, Registration], suspects: Set[BrokerEpoch]) -> None:
        self.core.live_changed(live, suspects)
        self.turn()

    def turn(self) -> None:
        """One turn of the commit loop, with its effects, in order."""
        if self.ended:
            return
        for effect in self.core.step(self._world.now):
            match effect:
                case AdvanceWatermark(high_watermark):
                    self._world.truth.committed_up_to(high_watermark, self.process.log)
                    self.process.raise_watermark(high_watermark)
                case Acknowledge(tickets):
                    for ticket in tickets:
                        self._world.truth.acknowledge(ticket, leads=True)
                case WriteIsr():
                    self._write_isr(effect)
                case TimeOut():
                    continue  # their outcome is unknown, and that is never corrected later
                case _:
                    raise AssertionError(f"a turn never gives {effect}")
        if self.core.knows_watermark:
            self._world.truth.shown(self.epoch, self.core.high_watermark)

    # --- the ISR -----------------------------------------------------------------------------

    def _write_isr(self, effect: WriteIsr) -> None:
        process = self.process

        def reply(version: int | None) -> None:
            if self.ended:
                return
            if version is not None:
                state = effect.state
            else:  # refused, or unknown: what does the znode say now? (I4)
                state, version = self._world.zookeeper.state, self._world.zookeeper.version
            if self.core.isr_read(state, version) is not None:
                process.step_down(state)
            else:
                self.turn()

        assert process.life is not None
        self._world.zookeeper.writes.append(
            Write(process.me, process.life, effect.state, effect.version, reply)
        )
        if self._world.broken is Rule.WRITE_ISR_FIRST:
            self.core.isr.settle(effect.state.isr, effect.version)

    # --- the end -----------------------------------------------------------------------------

    def end(self) -> None:
        if self.ended:
            return
        self.ended = True
        if self._world.broken is not Rule.QUEUE_DIES_WITH_EPOCH:
            self.core.resign()

    def watermark_after_the_end(self, high_watermark: int) -> None:
        """In a walk that breaks H6, any later HW serves an abandoned queue."""
        for ticket in self.core.queue.committed(Offset(high_watermark)):
            self._world.truth.acknowledge(ticket, leads=not self.ended)


class StreamServer:
    """Plays one process at the leader's end of its followers' streams."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def read(self, stream: Stream) -> None:
        """Take the next message, or notice that there will be none."""
        if not stream.up:
            if not stream.open_below:
                self.close(stream)
            return
        match stream.up.popleft():
            case Subscribe() as request:
                self._subscribe(stream, request)
            case Unsubscribe(sub_id):
                self._stop(stream, stream.subscriptions.pop(sub_id, None))
            case Progress(sub_id, end):
                self._progress(stream, sub_id, end)

    def close(self, stream: Stream) -> None:
        stream.open_above = False
        for subscription in stream.subscriptions.values():
            self._stop(stream, subscription)
        stream.subscriptions.clear()

    def _subscribe(self, stream: Stream, request: Subscribe) -> None:
        process, log = self._process, self._process.log
        leadership = process.leadership
        ending: Push | None = None
        if process.world.broken is Rule.COUNT_ONLY_THIS_EPOCH and leadership is not None:
            pass
        elif request.epoch > process.leader_epoch:
            ending = Push(request.id, refused="unknown epoch")
        elif request.epoch < process.leader_epoch or leadership is None:
            ending = Push(request.id, refused="not the leader")
        if ending is None and request.checked:
            ending = self._diverging(request)
        if ending is not None or leadership is None:
            stream.endings.append(ending or Push(request.id, refused="not the leader"))
            return
        sent = min(request.fetch_offset, log.end)
        stream.subscriptions[request.id] = Subscription(request.id, leadership, sent)
        leadership.fetched(stream, request.id, request.fetch_offset)
        leadership.turn()

    def _diverging(self, request: Subscribe) -> Push | None:
        """As `FollowerStream._open` finds it: where the logs part (KIP-279)."""
        log = self._process.log
        if request.last_epoch < 0:
            return Push(request.id, diverging=(-1, -1)) if request.fetch_offset else None
        epoch, end = log.end_offset_for(request.last_epoch)
        if epoch == request.last_epoch and end >= request.fetch_offset:
            return None
        return Push(request.id, self._process.high_watermark, diverging=(epoch, end))

    def _progress(self, stream: Stream, sub_id: int, end: int) -> None:
        subscription = stream.subscriptions.get(sub_id)
        if subscription is None:
            return
        leadership = subscription.leadership
        if self._process.world.broken is Rule.COUNT_ONLY_THIS_EPOCH:
            leadership = self._process.leadership or leadership
        if leadership.ended:
            return
        if end > subscription.sent:  # never sent: the stream is refused
            self.close(stream)
            return
        leadership.fetched(stream, sub_id, end)
        leadership.turn()

    def _stop(self, stream: Stream, subscription: Subscription | None) -> None:
        if subscription is not None:
            subscription.leadership.core.stopped_fetching(
                stream.follower, stream.life, self._process.world.now, subscription=subscription.id
            )

    # --- messages to followers ---------------------------------------------------------------

    def push(self, stream: Stream, records_max: int) -> bool:
        """Send the new data on this stream; False if there is none."""
        pushes, stream.endings = stream.endings, []
        for subscription in tuple(stream.subscriptions.values()):
            push = self._push(subscription, records_max)
            if push is not None:
                pushes.append(push)
                if push.refused:
                    self._stop(stream, stream.subscriptions.pop(subscription.id))
        stream.down.extend(pushes)
        return bool(pushes)

    def _push(self, subscription: Subscription, records_max: int) -> Push | None:
        process, log = self._process, self._process.log
        if subscription.leadership.ended:
            return Push(subscription.id, refused="not the leader")
        base = subscription.sent
        records = tuple(log.records[base : base + records_max])
        known = process.high_watermark if subscription.leadership.core.knows_watermark else -1
        if not records and known <= subscription.sent_watermark:
            return None
        subscription.sent, subscription.sent_watermark = base + len(records), known
        return Push(subscription.id, known, base, records)
