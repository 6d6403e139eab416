"""With any loss, delay or refusal: no acknowledged record is missing, and none is there twice."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strandline.broker.core.replication.producer_state import Duplicate, ProducerState
from strandline.config.limits import PRODUCER_BATCHES_REMEMBERED
from strandline.config.producer import ProducerSettings
from strandline.errors import (
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    Outcome,
    OutcomeUnknown,
    RequestTimedOut,
    StrandlineError,
    UnexpectedOffset,
)
from strandline.ids import TopicPartition
from strandline.producer.core.accumulator import Accumulator
from strandline.producer.core.batch import Batch
from strandline.producer.core.effects import Acknowledged, DelaySend, Divide, Effect, Failed, Renew, Send
from strandline.records import HEADER_BYTES, decode, pack_values, split
from strandline.vocabulary.log import ProducerIdentity

NAME = TopicPartition("t", 0)
BROKERS = (1, 2)
DELIVERY_S = 10.0
POISON = b"!"
"""A batch that begins with this is too large for every broker."""


@dataclass
class Connection:
    """Requests and answers in order. A request may be carried out long after the client gave it up."""

    broker: int
    requests: deque[tuple[Batch[int], bytes]] = field(default_factory=deque)
    answers: deque[tuple[Batch[int], StrandlineError | int]] = field(default_factory=deque)


class Delivery(RuleBasedStateMachine):
    """The accumulator against a partition with a perfect log and the broker's own memory of producers."""

    gapless = False

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.core: Accumulator[int] = Accumulator(
            ProducerSettings(delivery_timeout_ms=int(DELIVERY_S * 1000), gapless=self.gapless)
        )
        self.core.identity = ProducerIdentity(1, 0)
        self.queue = self.core.queue(NAME, 1024)
        self.leader, self.epoch = 1, 1
        self.core.led(NAME, self.leader, self.epoch)
        self.log: list[tuple[int, int]] = []
        self.log_end = 0
        self.producers = ProducerState(producers_max=100, expiry_ms=10**9)
        self.connections: dict[int, Connection] = {}
        self.lost: list[Connection] = []
        self.next_connection = 0
        self.next_identity = 2
        self.sent = 0
        self.poisoned: set[int] = set()
        self.expected: dict[int, int] = {}
        """The offset at which each batch with an expected offset must be, if anywhere."""
        self.ends: dict[int, int | StrandlineError] = {}
        self.pauses: list[DelaySend[int]] = []
        self.renewing = False

    def carry_out(self, effects: list[Effect[int]]) -> None:
        for effect in effects:
            match effect:
                case Acknowledged(batch, offset):
                    assert batch.ticket not in self.ends, "a batch ends once"
                    self.ends[batch.ticket] = offset
                case Failed(batch, error):
                    assert batch.ticket not in self.ends, "a batch ends once"
                    self.ends[batch.ticket] = error
                case Send(queue):
                    self.core.ready(queue)
                case DelaySend():
                    self.pauses.append(effect)
                case Divide(batch, error):
                    self.carry_out(self.core.indivisible(batch, error))
                case Renew():
                    assert not self.renewing, "one new producer id at a time"
                    self.renewing = True

    # --- the client --------------------------------------------------------------------------

    @rule(count=st.integers(1, 3), poison=st.sampled_from([False] * 9 + [True]))
    def send(self, count: int, poison: bool) -> None:
        value = b"%s%d" % (POISON if poison else b"", self.sent)
        if poison:
            self.poisoned.add(self.sent)
        self.add([value] * count, None)

    @rule(count=st.integers(1, 3), ahead=st.sampled_from([0] * 6 + [-1, 1]))
    def send_expecting(self, count: int, ahead: int) -> None:
        """Send like a producer that counts its earlier records: right if all of them are appended, and none
        by others."""
        before = sum(batch.record_count for batch in self.queue.unsettled() if not self.is_in_log(batch))
        expected = max(0, self.log_end + before + ahead)
        self.expected[self.sent] = expected
        self.add([b"%d" % self.sent] * count, expected)

    def add(self, values: list[bytes], expected_offset: int | None) -> None:
        self.core.add(self.queue, pack_values(values, 0), self.sent, self.now, expected_offset)
        self.core.ready(self.queue)
        self.sent += 1
        self.carry_out(self.core.fail_behind_gap(self.queue))

    def is_in_log(self, batch: Batch[int]) -> bool:
        return any(number == batch.ticket for number, _ in self.log)

    @rule()
    def write(self) -> None:
        """Over the connection that is open, or a new one."""
        broker = self.queue.broker
        number = next((n for n, c in self.connections.items() if c.broker == broker), None)
        if number is None:
            number = self.next_connection
            self.next_connection += 1
            self.connections[number] = Connection(broker)
        for batch in self.core.take(broker, number):
            self.connections[number].requests.append((batch, batch.seal()))

    @precondition(lambda self: self.pauses)
    @rule()
    def pause_ends(self) -> None:
        pause = self.pauses.pop(0)
        self.carry_out(self.core.backed_off(pause.queue, pause.pause))

    @precondition(lambda self: self.renewing)
    @rule()
    def renewal(self) -> None:
        self.renewing = False
        identity = ProducerIdentity(self.next_identity, 0)
        self.next_identity += 1
        self.carry_out(self.core.renewed(self.queue, identity))

    @rule(seconds=st.sampled_from([0.1, 1.0, DELIVERY_S / 2, DELIVERY_S]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.carry_out(self.core.expire(self.now))

    @rule()
    def learn_leader(self) -> None:
        self.carry_out(self.core.led(NAME, self.leader, self.epoch))

    # --- the cluster -------------------------------------------------------------------------

    @rule()
    def elect(self) -> None:
        self.leader, self.epoch = 3 - self.leader, self.epoch + 1

    @rule()
    def another_client_appends(self) -> None:
        self.log_end += 1

    @precondition(lambda self: self.connections)
    @rule(data=st.data(), mood=st.sampled_from(["append"] * 6 + ["too few", "no answer in time"]))
    def serve(self, data: st.DataObject, mood: str) -> None:
        connection = data.draw(st.sampled_from(list(self.connections.values())), label="connection")
        if connection.requests:
            batch, sealed = connection.requests.popleft()
            connection.answers.append((batch, self.append(connection.broker, sealed, mood)))

    def append(self, broker: int, sealed: bytes, mood: str) -> StrandlineError | int:
        if broker != self.leader:
            return NotLeaderOrFollower("not here")
        if mood == "too few":
            return NotEnoughReplicas("1 of 2")
        if sealed[HEADER_BYTES:].find(POISON) >= 0:
            return MessageTooLarge("poison")
        (header,) = split(sealed)
        try:
            verdict = self.producers.check(header, 0)
        except StrandlineError as error:
            return error
        if isinstance(verdict, Duplicate):
            offset = verdict.base_offset
        else:
            offset = self.log_end
            number = int(decode(sealed)[0].value or b"")
            if self.expected.get(number, offset) != offset:
                return UnexpectedOffset("somebody was there before")
            self.producers.record(header, offset, 0)
            self.log.append((number, offset))
            self.log_end += header.record_count
        return RequestTimedOut("appended, but late") if mood == "no answer in time" else offset

    @precondition(lambda self: any(c.answers for c in self.connections.values()))
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        answering = [c for c in self.connections.values() if c.answers]
        batch, answer = data.draw(st.sampled_from(answering), label="connection").answers.popleft()
        if isinstance(answer, int):
            self.carry_out(self.core.acknowledged(batch, answer))
        else:
            self.carry_out(self.core.refused(batch, answer))

    @precondition(lambda self: self.connections)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(list(self.connections)), label="connection")
        self.lost.append(self.connections.pop(number))
        self.carry_out(self.core.lost(number, OutcomeUnknown("reset by peer")))

    @precondition(lambda self: any(c.requests for c in self.lost))
    @rule(data=st.data())
    def serve_late(self, data: st.DataObject) -> None:
        """A broker works off what a connection had brought before it broke."""
        late = data.draw(st.sampled_from([c for c in self.lost if c.requests]), label="connection")
        self.append(late.broker, late.requests.popleft()[1], "append")

    # --- what must hold ----------------------------------------------------------------------

    @invariant()
    def as_many_in_flight_as_a_broker_remembers(self) -> None:
        assert len(self.queue.in_flight) <= PRODUCER_BATCHES_REMEMBERED
        assert len({batch.connection for batch in self.queue.in_flight}) <= 1

    @invariant()
    def nothing_is_written_twice(self) -> None:
        assert max(Counter(number for number, _ in self.log).values(), default=1) == 1

    @invariant()
    def what_is_acknowledged_is_there_in_order(self) -> None:
        offsets = dict(self.log)
        acknowledged = [number for number, end in sorted(self.ends.items()) if isinstance(end, int)]
        for number in acknowledged:
            assert self.ends[number] in (-1, offsets[number])
        assert [number for number, _ in self.log if number in set(acknowledged)] == acknowledged

    @invariant()
    def what_is_expected_somewhere_is_there_or_nowhere(self) -> None:
        for number, offset in self.log:
            assert self.expected.get(number, offset) == offset

    @invariant()
    def what_failed_for_sure_is_not_there(self) -> None:
        offsets = dict(self.log)
        for number, end in self.ends.items():
            if isinstance(end, StrandlineError) and end.outcome is not Outcome.UNKNOWN:
                assert number not in offsets, f"batch {number} failed with {end!r}, yet it is in the log"

    def teardown(self) -> None:
        """Once all is well again, everything ends: acknowledged, unless it never could be."""
        self.learn_leader()
        for _ in range(20 * (self.sent + 1)):
            if len(self.ends) == self.sent:
                break
            if self.renewing:
                self.renewal()
            while self.pauses:
                self.pause_ends()
            self.write()
            for connection in self.connections.values():
                while connection.requests:
                    batch, sealed = connection.requests.popleft()
                    connection.answers.append((batch, self.append(connection.broker, sealed, "append")))
                while connection.answers:
                    batch, answer = connection.answers.popleft()
                    if isinstance(answer, int):
                        self.carry_out(self.core.acknowledged(batch, answer))
                    else:
                        self.carry_out(self.core.refused(batch, answer))
        assert sorted(self.ends) == list(range(self.sent)), "nothing is left without an end"
        for connection in self.lost:
            for _, sealed in connection.requests:
                self.append(connection.broker, sealed, "append")
        self.nothing_is_written_twice()
        self.what_is_acknowledged_is_there_in_order()
        self.what_failed_for_sure_is_not_there()
        self.what_is_expected_somewhere_is_there_or_nowhere()
        for number in self.poisoned:
            assert isinstance(self.ends[number], StrandlineError)


class GaplessDelivery(Delivery):
    """The same with a gapless producer, and a broker that forgets it: the log is always a beginning of
    what was sent."""

    gapless = True

    @precondition(lambda self: self.log and not any(batch.sequence == 0 for batch in self.queue.unsettled()))
    @rule()
    def forget(self) -> None:
        """The producer must continue under another id. This does not happen while a first batch of it is in
        flight: a broker takes only that from an unknown producer, also when it is repeated."""
        for connection in (*self.connections.values(), *self.lost):
            if any(split(sealed)[0].base_sequence == 0 for _, sealed in connection.requests):
                return
        self.producers.clear()

    @invariant()
    def nothing_is_behind_a_gap(self) -> None:
        assert [number for number, _ in self.log] == list(range(len(self.log)))

    @invariant()
    def what_is_behind_a_failure_has_failed(self) -> None:
        failed = [number for number, end in self.ends.items() if isinstance(end, StrandlineError)]
        if failed:
            ended = {number for number in self.ends if number > min(failed)}
            assert ended == set(range(min(failed) + 1, self.sent))

    def teardown(self) -> None:
        super().teardown()
        self.nothing_is_behind_a_gap()


TestDelivery = Delivery.TestCase
TestDelivery.settings = settings(max_examples=300, stateful_step_count=60, deadline=None)
TestGaplessDelivery = GaplessDelivery.TestCase
TestGaplessDelivery.settings = settings(max_examples=300, stateful_step_count=60, deadline=None)
