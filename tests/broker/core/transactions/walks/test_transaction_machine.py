"""Transactions at random: any requests of present and fenced producers, appends that fail or of which the
result is unknown, markers one by one, clocks that differ, and coordinators that are replaced at any moment.

* An identity is given once (or again, as the answer to the same request), and epochs never go back.
* A transaction has one decision: each partition that was added gets its marker, and no other. What was
  answered is what is decided.
* It is over only when all its markers are written; until then it is open, or being ended.
* A producer adds partitions only with the identity that was given last. With an earlier one it may only
  repeat the request that gave it the next one.
* Verification finds a partition only in the open transaction of exactly this identity.
* A coordinator that loads the records knows what the one that wrote them knew.
* When all faults end, nothing stays open beyond the longest timeout.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from strandline.broker.core.coordinators.effects import Append
from strandline.broker.core.transactions.effects import SendMarkers
from strandline.broker.core.transactions.records import decode_key, encode_headers, encode_key, encode_value
from strandline.broker.core.transactions.requests import AbortTransaction
from strandline.broker.core.transactions.states import ENDING, IDLE
from strandline.broker.core.transactions.transaction import Transaction
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import (
    EPOCH_MAX,
    NO_PRODUCER,
    DescribedTransaction,
    DescribeTransaction,
    TransactionState,
)
from tests.broker.core.transactions.support.stage import BEGIN_MS, LIMITS, TIMEOUT_MS, Record, Stage, names

FRESH, WORN = "fresh", "worn"
NAMES = st.sampled_from([FRESH, WORN])
PARTITIONS = st.lists(st.sampled_from(names(0, 1, 2)), min_size=1, max_size=3, unique=True)
WORN_OUT = ProducerIdentity(5, EPOCH_MAX - 3)
OUTCOMES = st.sampled_from(["written"] * 6 + ["failed", "unknown", "later"])
"""Of the appends of one step. Unknown: it fails, and is in the log for all that. Later: of a later step."""


@dataclass(eq=False, slots=True)
class Open:
    """A transaction as clients and logs see it."""

    writer: ProducerIdentity
    partitions: set[TopicPartition] = field(default_factory=set)
    answered: bool | None = None
    decision: bool | None = None
    marks: set[TopicPartition] = field(default_factory=set)


@dataclass(slots=True)
class Id:
    """One transactional id in the model."""

    given: list[ProducerIdentity] = field(default_factory=list)
    """Each identity that a client got, in order."""
    open: Open | None = None
    over: list[Open] = field(default_factory=list)
    sent: SendMarkers | None = None
    unmarked: set[TopicPartition] = field(default_factory=set)
    tainted: bool = False
    """The log has a record of which the coordinator does not know."""

    def by(self, writer: ProducerIdentity) -> Open | None:
        """The last transaction of an identity."""
        found = [*self.over, *([self.open] if self.open else [])]
        return next((each for each in reversed(found) if each.writer == writer), None)


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        held = Transaction(WORN, WORN_OUT, TIMEOUT_MS, TransactionState.EMPTY, BEGIN_MS)
        self.log: list[Record] = [(encode_key(WORN), encode_value(held), encode_headers(held))]
        self.ids = {FRESH: Id(), WORN: Id([WORN_OUT])}
        self.stage = Stage(LIMITS, log=self.log)
        self.calls: dict[int, tuple[str, str, Any]] = {}
        self.versions: dict[ProducerIdentity, bool] = {WORN_OUT: True}
        self.seen = 0
        self.sent = 0
        self.stage.writing = False

    # --- what clients hear -------------------------------------------------------------------

    def look(self) -> None:
        """Judge the markers and the answers since the last look."""
        for sent in self.stage.markers[self.sent :]:
            self.markers_sent(sent)
        self.sent = len(self.stage.markers)
        answers = list(self.stage.answers.items())
        for token, answer in answers[self.seen :]:
            what, name, request = self.calls.pop(token, ("", "", None))
            if what and not isinstance(answer, StrandlineError):
                getattr(self, f"{what}_answered")(name, request, answer)
        self.seen = len(answers)
        for name, known in self.ids.items():
            self.follow(name, known)

    def give(self, known: Id, identity: ProducerIdentity) -> None:
        if known.given and identity == known.given[-1]:
            return
        assert identity not in known.given, f"{identity} is given again: {known.given}"
        before = [each.producer_epoch for each in known.given if each.producer_id == identity.producer_id]
        assert identity.producer_epoch > max(before, default=-1), f"{identity} after {known.given}"
        assert identity.producer_epoch < EPOCH_MAX
        known.given.append(identity)

    def init_answered(self, name: str, asked: tuple[ProducerIdentity, bool], identity: Any) -> None:
        known = self.ids[name]
        assert known.open is None, f"{identity} is given while {known.open} is open"
        given, v2 = asked
        if given == NO_PRODUCER:
            assert identity not in known.given, f"{identity} is given to a second producer"
        self.give(known, identity)
        self.versions.setdefault(identity, v2)

    def add_answered(self, name: str, asked: tuple[ProducerIdentity, list[TopicPartition]], _: Any) -> None:
        known, (writer, partitions) = self.ids[name], asked
        assert writer == known.given[-1], f"{writer} added partitions after {known.given[-1]} was given"
        if known.open is None:
            known.open = Open(writer)
        assert known.open.writer == writer and known.open.decision is None, f"{writer}: {known.open}"
        known.open.partitions.update(partitions)

    def verify_answered(self, name: str, writer: ProducerIdentity, results: Any) -> None:
        found = {partition for partition, error in results.items() if error is None}
        known = self.ids[name]
        if found:
            assert writer == known.given[-1]
            assert known.open is None or (known.open.writer == writer and known.open.decision is None)

    def end_answered(self, name: str, asked: tuple[ProducerIdentity, bool], identity: Any) -> None:
        known, (writer, commit) = self.ids[name], asked
        transaction = known.by(writer)
        if writer != known.given[-1]:
            assert identity == known.given[-1], f"{writer} got {identity} after {known.given[-1]}"
        if transaction is not None and transaction.decision is not None:
            assert transaction.decision is commit
        elif transaction is not None:
            transaction.answered = commit
        if self.versions[writer]:
            assert identity != writer
            self.versions.setdefault(identity, True)
        self.give(known, identity)

    def force_answered(self, name: str, _: None, __: None) -> None:
        """The markers say what was decided."""

    def markers_sent(self, sent: SendMarkers) -> None:
        known = self.ids[sent.transactional_id]
        if known.open is None:  # it began, and its client does not know that
            known.open = Open(known.given[-1])
        transaction = known.open
        assert transaction.decision in (None, sent.commit), f"{sent} after {transaction}"
        assert transaction.answered in (None, sent.commit), f"{sent} after {transaction}"
        assert transaction.partitions <= sent.partitions
        assert sent.producer.producer_id == transaction.writer.producer_id
        by_how_much = sent.producer.producer_epoch - transaction.writer.producer_epoch
        assert by_how_much in (0, 1)
        transaction.decision = sent.commit
        known.sent, known.unmarked = sent, set(sent.partitions)

    def follow(self, name: str, known: Id) -> None:
        """A transaction is over when the coordinator says so, and then all its markers are written."""
        described = self.described(name)
        if known.open is None or (described is not None and described.state not in IDLE):
            return
        transaction, known.open = known.open, None
        assert transaction.decision is not None, f"{name}: {transaction} is gone"
        assert transaction.partitions <= transaction.marks
        known.over.append(transaction)

    def described(self, name: str, stage: Stage | None = None) -> DescribedTransaction | None:
        stage = stage or self.stage
        answer = stage.answers.pop(stage.ask(DescribeTransaction(name)))
        return answer if isinstance(answer, DescribedTransaction) else None

    # --- requests ----------------------------------------------------------------------------

    def identity(self, name: str, back: int) -> ProducerIdentity:
        given = self.ids[name].given
        return given[-1 - back] if back < len(given) else NO_PRODUCER

    @rule(name=NAMES, back=st.sampled_from([-1, -1, 0, 0, 1, 2]), v2=st.booleans(), outcome=OUTCOMES)
    def init(self, name: str, back: int, v2: bool, outcome: str) -> None:
        given = NO_PRODUCER if back < 0 else self.identity(name, back)
        self.calls[self.stage.asked + 1] = ("init", name, (given, self.versions.get(given, v2)))
        waiting, known = len(self.stage.wanted), self.ids[name]
        self.stage.init(given, name)
        if known.open is not None and given not in (NO_PRODUCER, known.given[-1]):
            assert len(self.stage.wanted) == waiting, f"{given} ends {known.open}, and is fenced"
        self.settle(outcome)

    @rule(name=NAMES, back=st.sampled_from([0, 0, 0, 0, 1, 2]), partitions=PARTITIONS, outcome=OUTCOMES)
    def add(self, name: str, back: int, partitions: list[TopicPartition], outcome: str) -> None:
        writer = self.identity(name, back)
        self.calls[self.stage.asked + 1] = ("add", name, (writer, partitions))
        self.stage.add(writer, *partitions, name=name)
        self.settle(outcome)

    @rule(name=NAMES, back=st.sampled_from([0, 0, 0, 1, 1, 2]), commit=st.booleans(), outcome=OUTCOMES)
    def end(self, name: str, back: int, commit: bool, outcome: str) -> None:
        writer = self.identity(name, back)
        self.calls[self.stage.asked + 1] = ("end", name, (writer, commit))
        self.stage.end(writer, commit=commit, v2=self.versions.get(writer, True), name=name)
        self.settle(outcome)

    @rule(name=NAMES, back=st.integers(0, 2), partitions=PARTITIONS)
    def verify(self, name: str, back: int, partitions: list[TopicPartition]) -> None:
        writer = self.identity(name, back)
        self.calls[self.stage.asked + 1] = ("verify", name, writer)
        self.stage.verify(writer, *partitions, name=name)
        self.look()

    @rule(name=NAMES, outcome=OUTCOMES)
    def force(self, name: str, outcome: str) -> None:
        self.calls[self.stage.asked + 1] = ("force", name, None)
        self.stage.ask(AbortTransaction(name))
        self.settle(outcome)

    @rule(name=NAMES, partitions=PARTITIONS, commit=st.booleans(), outcomes=st.tuples(OUTCOMES, OUTCOMES))
    def transact(
        self, name: str, partitions: list[TopicPartition], commit: bool, outcomes: tuple[str, str]
    ) -> None:
        """A producer that goes its usual way."""
        self.add(name, 0, partitions, outcomes[0])
        self.end(name, 0, commit, outcomes[1])

    @precondition(lambda self: self.undecided())
    @rule(back=st.integers(-1, 2), outcome=OUTCOMES)
    def interrupt(self, back: int, outcome: str) -> None:
        """A twin, or the producer itself, comes while a transaction is open."""
        self.init(self.undecided()[0], back, True, outcome)

    @precondition(lambda self: self.undecided())
    @rule(outcome=OUTCOMES)
    def time_out(self, outcome: str) -> None:
        self.later(TIMEOUT_MS // 1000, outcome)

    def undecided(self) -> list[str]:
        """The ids with an open transaction."""
        return [name for name, known in self.ids.items() if known.open and known.open.decision is None]

    # --- the world ---------------------------------------------------------------------------

    @rule(outcome=OUTCOMES)
    def settle(self, outcome: str) -> None:
        """The appends that wait, and those that follow from them, end in this way."""
        self.look()
        while outcome != "later" and self.stage.wanted:
            known = self.ids[name_of(self.stage.wanted[0])]
            if outcome == "written":
                known.tainted = False
                self.stage.written()
            else:
                known.tainted |= outcome == "unknown"
                self.stage.failed(there=outcome == "unknown")
            self.look()

    @rule(name=NAMES, count=st.integers(1, 3), outcome=OUTCOMES)
    def mark(self, name: str, count: int, outcome: str = "written") -> None:
        known = self.ids[name]
        if known.sent is None:
            return
        done = sorted(known.unmarked)[:count]
        known.unmarked.difference_update(done)
        if known.open is not None:
            known.open.marks.update(done)
        sent = known.sent
        self.stage.play(self.stage.core.marked(name, sent.producer, done, self.stage.now))
        self.settle(outcome)

    @rule(seconds=st.sampled_from([0, 1, 5, 61, 61, 200]), outcome=OUTCOMES)
    def later(self, seconds: int, outcome: str = "written") -> None:
        self.stage.later(seconds)
        self.settle(outcome)

    @rule(there=st.integers(0, 3), ahead_ms=st.sampled_from([0, 0, -100_000, 100_000]))
    def take_over(self, there: int, ahead_ms: int) -> None:
        """Some of the appends in flight are in the log, the first ones; no result is known."""
        self.stage.unload()
        self.look_at_refusals()
        for append in self.stage.wanted[:there]:
            self.stage.log.extend(append.each())
        self.stage = self.stage.elsewhere(wall_ahead_ms=ahead_ms)
        self.stage.writing = False
        self.seen = self.sent = 0
        self.calls.clear()
        for known in self.ids.values():
            known.tainted, known.sent = False, None
        self.look()

    def look_at_refusals(self) -> None:
        answers = list(self.stage.answers.items())
        assert all(isinstance(answer, StrandlineError) for _, answer in answers[self.seen :])
        assert not self.calls.keys() - self.stage.answers.keys(), "a call is not answered"

    @invariant()
    def the_log_says_the_same(self) -> None:
        there = self.stage.elsewhere()
        for name, known in self.ids.items():
            if not known.tainted:
                assert self.described(name, there) == self.described(name)

    @invariant()
    def open_partitions_are_counted(self) -> None:
        described = [self.described(name) for name in self.ids]
        total = sum(len(each.partitions) for each in described if each is not None)
        assert self.stage.core.open_partitions == total

    @invariant()
    def an_open_transaction_has_a_timeout(self) -> None:
        if self.undecided() and not self.stage.wanted:
            deadline = self.stage.core.next_deadline()
            assert deadline is not None and deadline <= self.stage.at_s + TIMEOUT_MS / 1000

    def teardown(self) -> None:
        """All faults end."""
        self.settle("written")
        self.stage.writing = True
        self.later(LIMITS.transaction_max_timeout_ms // 1000)
        for name, known in self.ids.items():
            described = self.described(name)
            assert described is None or described.state in IDLE | ENDING
            if known.unmarked:
                self.mark(name, len(known.unmarked))
            self.later(1)
            assert known.open is None
        assert self.stage.core.open_partitions == 0
        assert not self.calls, "a call is not answered"


def name_of(append: Append) -> str:
    return decode_key(append.records[0][0])


TransactionMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=60, deadline=None)
TestTransactionMachine = TransactionMachine.TestCase
