"""A stage for a coordinator of transactions: carries its effects out, with a log in memory and a clock set by
hand. Producer ids come from a counter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from strandline.broker.core.coordinators.effects import Answer, Append, Call, Failed, Instant
from strandline.broker.core.transactions.coordinator import TransactionCoordinator
from strandline.broker.core.transactions.effects import (
    Effect,
    EventKind,
    Publish,
    SendMarkers,
    TransactionEvent,
)
from strandline.broker.core.transactions.limits import TransactionLimits
from strandline.broker.core.transactions.records import decode_value, encode_headers, encode_key, encode_value
from strandline.broker.core.transactions.requests import AbortTransaction, End, Initialize
from strandline.broker.core.transactions.transaction import Transaction
from strandline.errors import CoordinatorNotAvailable, NotCoordinator, StrandlineError
from strandline.ids import NO_PRODUCER as NO_ID
from strandline.ids import TopicPartition
from strandline.records import Headers
from strandline.vocabulary.asks import Asks
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import (
    EPOCH_MAX,
    NO_PRODUCER,
    AddPartitions,
    DescribedTransaction,
    DescribeTransaction,
    EndTransaction,
    InitTransactions,
    TransactionState,
)

NAME = "payments"
TIMEOUT_MS = 60_000
BEGIN_MS = 1_700_000_000_000
FIRST_ID = 7_000
A, B, C = (TopicPartition("orders", number) for number in range(3))

LIMITS = TransactionLimits(
    transaction_max_timeout_ms=900_000,
    transactional_id_expiration_ms=604_800_000,
    transactional_ids_max=100,
    transaction_partitions_max=50,
    open_partitions_max=200,
)

Record = tuple[bytes, bytes | None, Headers]
T = TypeVar("T")


class Numbered(Call[Any]):
    """A call that is known by a number."""

    def __init__(self, token: int) -> None:
        self.token = token

    def deliver(self, answer: Any) -> None:
        raise AssertionError(f"call {self.token} is delivered by the core")


class Stage:
    """Appends succeed at once while `writing`; else `written` and `failed` say how they end. Markers are
    written by `mark`."""

    def __init__(
        self,
        limits: TransactionLimits = LIMITS,
        *,
        log: Iterable[Record] = (),
        at_s: float = 100.0,
        wall_ahead_ms: int = 0,
    ) -> None:
        self.limits = limits
        self.core = TransactionCoordinator(limits)
        self.at_s = at_s
        self.wall_ahead_ms = wall_ahead_ms
        self.log = list(log)
        self.answers: dict[int, Any] = {}
        self.events: list[TransactionEvent] = []
        self.markers: list[SendMarkers] = []
        self.failures: list[Failed] = []
        self.expects_failures = False
        self.wanted: list[Append] = []
        self.writing = True
        self.asked = 0
        self.ids = FIRST_ID
        for key, value, headers in self.log:
            self.core.load(key, value, self.now.wall_ms, headers)
        self.play(self.core.loaded(self.now))

    @property
    def now(self) -> Instant:
        return Instant(self.at_s, BEGIN_MS + self.wall_ahead_ms + round(self.at_s * 1000))

    # --- effects -----------------------------------------------------------------------------

    def play(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Answer(call, value):
                    assert isinstance(call, Numbered)
                    assert call.token not in self.answers, f"{call.token} is answered twice"
                    self.answers[call.token] = value
                case Append():
                    self.wanted.append(effect)
                    if self.writing:
                        self.written()
                case SendMarkers():
                    self.markers.append(effect)
                case Publish(event):
                    self.events.append(event)
                case Failed(_, _, error):
                    self.failures.append(effect)
                    if not self.expects_failures:
                        raise error

    def written(self) -> None:
        """The oldest append that waits is in the log."""
        append = self.wanted.pop(0)
        self.log.extend(append.each())
        self.play(self.core.appended(append.write_id, None, self.now))

    def failed(self, error: StrandlineError | None = None, *, there: bool = False) -> None:
        """The oldest append that waits failed; `there`: it is in the log for all that."""
        append = self.wanted.pop(0)
        if there:
            self.log.extend(append.each())
        error = error or CoordinatorNotAvailable("too few replicas")
        self.play(self.core.appended(append.write_id, error, self.now))

    def mark(self, *partitions: TopicPartition) -> None:
        """The markers of the last SendMarkers are in the logs of these partitions; of all without any."""
        sent = self.markers[-1]
        names = partitions or tuple(sent.partitions)
        self.play(self.core.marked(sent.transactional_id, sent.producer, names, self.now))

    def later(self, seconds: float) -> None:
        """Time passes, and every deadline on the way is kept."""
        end = self.at_s + seconds
        while (deadline := self.core.next_deadline()) is not None and deadline <= end:
            self.at_s = max(self.at_s, deadline)
            self.play(self.core.tick(self.now))
        self.at_s = end

    def elsewhere(self, *, wall_ahead_ms: int = 0) -> Stage:
        """The coordinator that takes over: it has read this one's log."""
        stage = Stage(self.limits, log=self.log, at_s=self.at_s, wall_ahead_ms=wall_ahead_ms)
        stage.ids = self.ids
        return stage

    def unload(self) -> None:
        self.play(self.core.unload(NotCoordinator("led elsewhere")))

    # --- requests ----------------------------------------------------------------------------

    def ask(self, request: Asks[Any]) -> int:
        self.asked += 1
        self.play(self.core.handle(Numbered(self.asked), request, self.now))
        return self.asked

    def answer(self, token: int, kind: type[T]) -> T:
        """The answer, which must be there and of this kind."""
        assert token in self.answers, f"{token} waits"
        answer = self.answers[token]
        assert isinstance(answer, kind), f"{token}: {answer!r} instead of {kind.__name__}"
        return answer

    def waits(self, token: int) -> bool:
        return token not in self.answers

    def new_id(self, request: Asks[Any]) -> int:
        """A fresh producer id, if the request needs one."""
        if not self.core.needs_producer_id(request):
            return NO_ID
        self.ids += 1
        return self.ids

    def init(
        self, producer: ProducerIdentity = NO_PRODUCER, name: str = NAME, timeout_ms: int = TIMEOUT_MS
    ) -> int:
        request = InitTransactions(name, timeout_ms, producer)
        return self.ask(Initialize(request, self.new_id(request)))

    def add(self, producer: ProducerIdentity, *partitions: TopicPartition, name: str = NAME) -> int:
        return self.ask(AddPartitions(name, producer, partitions))

    def verify(self, producer: ProducerIdentity, *partitions: TopicPartition, name: str = NAME) -> int:
        return self.ask(AddPartitions(name, producer, partitions, verify_only=True))

    def end(self, producer: ProducerIdentity, *, commit: bool, v2: bool = True, name: str = NAME) -> int:
        request = EndTransaction(name, producer, commit, v2)
        return self.ask(End(request, self.new_id(request)))

    def force(self, name: str = NAME) -> int:
        return self.ask(AbortTransaction(name))

    # --- scenes ------------------------------------------------------------------------------

    def producer(self, given: ProducerIdentity = NO_PRODUCER, name: str = NAME) -> ProducerIdentity:
        return self.answer(self.init(given, name), ProducerIdentity)

    def begun(self, *partitions: TopicPartition, name: str = NAME) -> ProducerIdentity:
        """A new producer with an open transaction."""
        producer = self.producer(name=name)
        self.answer(self.add(producer, *(partitions or (A, B)), name=name), dict)
        return producer

    def ended(self, producer: ProducerIdentity, *, commit: bool = True, v2: bool = True) -> ProducerIdentity:
        """The transaction ends; its markers are yet to be written."""
        return self.answer(self.end(producer, commit=commit, v2=v2), ProducerIdentity)

    def described(self, name: str = NAME) -> DescribedTransaction:
        return self.answer(self.ask(DescribeTransaction(name)), DescribedTransaction)

    @property
    def state(self) -> TransactionState:
        return self.described().state

    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]

    def last_record(self) -> Transaction:
        _, value, headers = self.log[-1]
        assert value is not None
        return decode_value(NAME, value, headers)


def raised(producer: ProducerIdentity, by: int = 1) -> ProducerIdentity:
    return replace(producer, producer_epoch=producer.producer_epoch + by)


def worn(epoch: int = EPOCH_MAX - 1) -> Stage:
    """A stage whose producer FIRST_ID has this epoch, and no transaction."""
    held = Transaction(
        NAME, ProducerIdentity(FIRST_ID, epoch), TIMEOUT_MS, TransactionState.EMPTY, BEGIN_MS + 100_000
    )
    return Stage(log=[(encode_key(NAME), encode_value(held), encode_headers(held))])


def names(*numbers: int) -> Sequence[TopicPartition]:
    return [TopicPartition("orders", number) for number in numbers]
