"""The coordinator of the transactions of one partition of `__transaction_state`: its public face.

It reads no clock and awaits nothing: each call takes the time and returns the effects to carry out, in order
(`effects`). A driver loads the log record by record, calls `loaded`, hands requests, results and finished
markers in, calls `tick` when `next_deadline` has come, and calls `unload` when another broker leads the
partition.

A change is held once its record is in the log, and only then answered and acted on. A write whose result is
an error may be in the log all the same: nothing was done because of it, and the next write of its
transactional id stands after it. If none comes, the next coordinator continues from it.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any, Final, assert_never

from strandline.broker.core.coordinators.effects import Call, Instant, call_of
from strandline.broker.core.coordinators.names import check_name
from strandline.broker.core.transactions import decisions, progress
from strandline.broker.core.transactions.effects import (
    AbortReason,
    Effect,
)
from strandline.broker.core.transactions.entry import Entry
from strandline.broker.core.transactions.limits import (
    TransactionLimits,
    check_timeout,
    check_transactional_id,
)
from strandline.broker.core.transactions.records import (
    UnreadableTransactionRecord,
    decode_key,
    decode_value,
)
from strandline.broker.core.transactions.requests import (
    AbortTransaction,
    End,
    Initialize,
    RequestOfOne,
    as_request,
)
from strandline.broker.core.transactions.transaction import Transaction
from strandline.broker.core.transactions.turn import Turn
from strandline.errors import (
    ConcurrentTransactions,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    InvalidProducerIdMapping,
    InvalidRequest,
    StrandlineError,
    TransactionalIdNotFound,
)
from strandline.ids import TopicPartition
from strandline.records import Headers
from strandline.security.principal import Principal
from strandline.vocabulary.asks import Answered, Asks
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import (
    AddPartitions,
    DescribedTransaction,
    DescribeTransaction,
    EndTransaction,
    InitTransactions,
    ListedTransaction,
    ListTransactions,
    PartitionResults,
    TransactionState,
)

EXPIRY_CHECK_MS: Final = 3_600_000
EXPIRED_PER_TURN_MAX: Final = 500
"""Transactional ids that are checked for expiry before other work gets a turn."""
TIMERS_PER_TURN_MAX: Final = 200
"""Transactions that are aborted for their timeout before other work gets a turn: after the coordinator has
moved, all of them may be due at one time. Some milliseconds."""

EXPIRY: Final = ""
"""The timer of expired ids; no transactional id has this name."""


class TransactionCoordinator:
    """Each call is answered exactly once."""

    __slots__ = ("_refusal", "_turn", "_unchecked")

    def __init__(self, limits: TransactionLimits) -> None:
        self._turn = Turn(limits)
        self._unchecked: list[str] = []  # ids that this round of expiry has yet to check
        self._refusal: StrandlineError | None = CoordinatorLoading(
            "the transactions are being read from the log"
        )

    @property
    def open_partitions(self) -> int:
        """Of all transactions that are open or ending."""
        return self._turn.open_partitions

    def states(self) -> list[TransactionState]:
        """The state of each known transactional id."""
        return [_state(entry) for entry in self._turn.entries.values() if entry.held or entry.refusal]

    # --- loading and unloading ---------------------------------------------------------------

    def load(self, key: bytes, value: bytes | None, wall_ms: int, headers: Headers = ()) -> None:
        """Replay one record of the log, in the log's order. None is a tombstone.

        Raises a StrandlineError for a record that no coordinator writes. If its key can be read, the id is
        refused until a later record replaces it: an earlier one may hold the opposite decision.
        """
        transactional_id = decode_key(key)
        entries = self._turn.entries
        entry = entries.setdefault(transactional_id, Entry(transactional_id))
        try:
            held = None if value is None else decode_value(transactional_id, value, headers)
        except UnreadableTransactionRecord as error:
            self._turn.hold(entry, None)
            entry.refusal = CoordinatorNotAvailable(f"its last record cannot be read: {error.message}")
            entries[transactional_id] = entry
            raise
        self._turn.hold(entry, held)

    def loaded(self, now: Instant) -> list[Effect]:
        """The log is read to its end: serve, continue what is ending, and let timeouts go on."""
        turn = self._turn
        turn.begin(now)
        self._refusal = None
        for entry in list(turn.entries.values()):
            turn.run(entry, partial(progress.resume, turn, entry))
        turn.start(EXPIRY, EXPIRY_CHECK_MS)
        return turn.end()

    def unload(self, error: StrandlineError) -> list[Effect]:
        """Another broker leads the partition: all waiting and later calls are answered with `error`.
        Writes in flight may be in the log or not; their results are ignored."""
        self._turn.begin(self._turn.now)
        self._refusal = error
        self._turn.clear(error)
        self._unchecked.clear()
        return self._turn.end()

    # --- requests ----------------------------------------------------------------------------

    def needs_producer_id(self, request: Asks[Any]) -> bool:
        """Whether this request needs a new producer id, as things stand: for `Initialize` or `End`."""
        match request:
            case InitTransactions(transactional_id):
                held = self._held(transactional_id)
                return held is None or (held.idle and held.epochs_used_up)
            case EndTransaction(transactional_id, producer, next_epoch=True):
                held = self._held(transactional_id)
                return held is not None and held.epochs_used_up and held.holder == producer
        return False

    def handle(
        self, call: Call[Answered], request: Asks[Answered], now: Instant, by: Principal | None = None
    ) -> list[Effect]:
        """Handle one request. It is answered once, by these effects or by those of a later call. `by`
        does not matter: who may use a transactional id is decided before.

        initialize   the producer's identity once it is in the log; ConcurrentTransactions once it is in the
                     log that its open transaction aborts
        partitions   None for each once they are in the log; or whether each is there (`verify_only`)
        end          the producer's next identity once the decision is in the log
        abort        None once the decision is in the log
        describe     DescribedTransaction
        list         ListedTransaction, by name

        Or with a StrandlineError. One that refuses the request itself comes at once, before any change.
        """
        turn = self._turn
        turn.begin(now)
        known = as_request(request)
        if self._refusal is not None:
            turn.answer(call, self._refusal)
        elif isinstance(known, ListTransactions):
            turn.answer(call_of(known, call), self._listed())
        else:
            entry = turn.entries.get(known.transactional_id) or Entry(known.transactional_id)
            turn.run(entry, partial(self._handle, entry, call, known), call)
        return turn.end()

    def _handle(self, entry: Entry, call: Call[Any], request: RequestOfOne) -> None:
        try:
            check_transactional_id(entry.transactional_id)
            if entry.refusal is not None:
                raise entry.refusal
            match request:
                case Initialize():
                    self._initialize(entry, call_of(request, call), request)
                case AddPartitions():
                    self._add(entry, call_of(request, call), request)
                case End():
                    self._end_transaction(entry, call_of(request, call), request)
                case AbortTransaction():
                    self._abort(entry, call_of(request, call))
                case DescribeTransaction():
                    self._turn.answer(call_of(request, call), _described(_found(entry)))
                case _:
                    assert_never(request)
        except StrandlineError as error:
            self._turn.answer(call, error)

    def _initialize(self, entry: Entry, call: Call[ProducerIdentity], asked: Initialize) -> None:
        check_timeout(asked.request.timeout_ms, self._turn.limits)
        self._turn.check_idle(entry)
        if entry.held is None:
            self._check_room()
            wanted = decisions.first(asked, self._turn.now.wall_ms)
            self._turn.entries[entry.transactional_id] = entry
        else:
            wanted = decisions.initialized(entry.held, asked, self._turn.now.wall_ms)
        if wanted.ending:
            again = decisions.being_ended(entry.transactional_id)
            self._turn.write(entry, wanted, call, again, AbortReason.FENCED)
        else:
            self._turn.write(entry, wanted, call, wanted.producer)

    def _check_room(self) -> None:
        most = self._turn.limits.transactional_ids_max
        if len(self._turn.entries) >= most:
            raise InvalidRequest(
                f"this transactional id would be one more than the {most} that a coordinator keeps",
                limit=most,
            )

    def _add(self, entry: Entry, call: Call[PartitionResults], asked: AddPartitions) -> None:
        held = _known(entry)
        if asked.verify_only:
            if entry.writing is not None and entry.writing.wanted is not None and entry.writing.wanted.ending:
                raise decisions.being_ended(entry.transactional_id)
            self._turn.answer(call, decisions.verified(held, asked))
            return
        self._turn.check_idle(entry)
        wanted = decisions.added(held, asked, self._turn.now.wall_ms)
        answer: PartitionResults = dict.fromkeys(asked.partitions)
        if wanted is held:
            self._turn.answer(call, answer)
            return
        self._check_partitions(held, wanted)
        self._turn.write(entry, wanted, call, answer)

    def _check_partitions(self, held: Transaction, wanted: Transaction) -> None:
        """Raises InvalidRequest, InvalidTopic, ConcurrentTransactions."""
        for name in wanted.partitions - held.partitions:
            if (wrong := check_name(name)) is not None:
                raise wrong
        most = self._turn.limits.transaction_partitions_max
        if len(wanted.partitions) > most:
            raise InvalidRequest(
                f"a transaction of {len(wanted.partitions)} partitions, more than {most}", limit=most
            )
        most = self._turn.limits.open_partitions_max
        total = self._turn.open_partitions + len(wanted.partitions) - len(held.partitions)
        if total > most:
            raise ConcurrentTransactions(
                f"the open transactions of this coordinator would have {total} partitions, more than {most}: "
                "ask again once some have ended"
            )

    def _end_transaction(self, entry: Entry, call: Call[ProducerIdentity], asked: End) -> None:
        held = _known(entry)
        self._turn.check_idle(entry)
        wanted = decisions.ended(held, asked, self._turn.now.wall_ms)
        answer = wanted.holder
        assert answer is not None, f"{wanted}: its client has no identity"
        if wanted is held:
            self._turn.answer(call, answer)
            return
        self._turn.write(entry, wanted, call, answer, AbortReason.ASKED)

    def _abort(self, entry: Entry, call: Call[None]) -> None:
        held = _found(entry)
        self._turn.check_idle(entry)
        wanted = decisions.aborted_by_force(held, self._turn.now.wall_ms)
        if wanted is held:
            self._turn.answer(call, None)
            return
        self._turn.write(entry, wanted, call, None, AbortReason.ADMINISTRATOR)

    # --- tools -------------------------------------------------------------------------------

    def _held(self, transactional_id: str) -> Transaction | None:
        entry = self._turn.entries.get(transactional_id)
        return None if entry is None else entry.held

    def _listed(self) -> tuple[ListedTransaction, ...]:
        found = (entry.held for _, entry in sorted(self._turn.entries.items()))
        return tuple(
            ListedTransaction(held.transactional_id, held.producer.producer_id, held.state, held.started_ms)
            for held in found
            if held is not None
        )

    # --- calls of the driver -----------------------------------------------------------------

    def appended(self, write_id: int, error: StrandlineError | None, now: Instant) -> list[Effect]:
        """The result of an Append: None if it is committed. Results come exactly once, in any order; after
        `unload` they no longer matter."""
        turn = self._turn
        turn.begin(now)
        entry = turn.take_written(write_id)
        if entry is not None and entry.writing is not None:
            write = entry.writing
            turn.run(entry, partial(progress.settle, turn, entry, write, error), write.call)
        return turn.end()

    def marked(
        self,
        transactional_id: str,
        marker_producer: ProducerIdentity,
        partitions: Collection[TopicPartition],
        now: Instant,
    ) -> list[Effect]:
        """These partitions' markers are below their high watermarks, or the partitions no longer exist.
        Called for each partition of a SendMarkers at most once; others are ignored."""
        turn = self._turn
        turn.begin(now)
        entry = turn.entries.get(transactional_id)
        if entry is not None and entry.refusal is None:
            held = entry.held
            if held is not None and held.producer == marker_producer:
                turn.run(entry, partial(progress.marked, turn, entry, held, partitions))
        return turn.end()

    def tick(self, now: Instant) -> list[Effect]:
        """Run timers that are due. Some may be left: `next_deadline` has come by then."""
        turn = self._turn
        turn.begin(now)
        for _ in range(TIMERS_PER_TURN_MAX):
            transactional_id = turn.timers.pop(now.monotonic_s)
            if transactional_id is None:
                break
            if transactional_id == EXPIRY:
                self._expire()
            else:
                entry = turn.entries[transactional_id]
                turn.run(entry, partial(progress.due, turn, entry))
        return turn.end()

    def next_deadline(self) -> float | None:
        """The monotonic time at which to call `tick`; None: not before the next call. Any call may move it
        closer."""
        return self._turn.timers.next_deadline()

    def _expire(self) -> None:
        """Remove some of the ids that no producer has used for long."""
        turn = self._turn
        now_ms = turn.now.wall_ms if turn.now.expiry_ms is None else turn.now.expiry_ms
        if not self._unchecked:
            self._unchecked = list(turn.entries)
        for _ in range(min(EXPIRED_PER_TURN_MAX, len(self._unchecked))):
            entry = turn.entries.get(self._unchecked.pop())
            if entry is None or entry.held is None or entry.writing is not None or entry.refusal is not None:
                continue
            unused_ms = now_ms - entry.held.updated_ms
            if entry.held.idle and unused_ms >= turn.limits.transactional_id_expiration_ms:
                turn.write(entry, None)
        turn.start(EXPIRY, 1 if self._unchecked else EXPIRY_CHECK_MS)


def _known(entry: Entry) -> Transaction:
    """What a producer asks about. Raises InvalidProducerIdMapping, as Kafka does for an unknown id."""
    if entry.held is None:
        raise InvalidProducerIdMapping(f"transactional id {entry.transactional_id} is not known")
    return entry.held


def _found(entry: Entry) -> Transaction:
    """What a tool asks about. Raises TransactionalIdNotFound."""
    if entry.held is None:
        raise TransactionalIdNotFound(f"transactional id {entry.transactional_id} is not known")
    return entry.held


def _state(entry: Entry) -> TransactionState:
    if entry.refusal is not None or entry.held is None:
        return TransactionState.DEAD
    return entry.held.state


def _described(held: Transaction) -> DescribedTransaction:
    return DescribedTransaction(
        held.transactional_id,
        held.producer,
        held.state,
        held.timeout_ms,
        held.started_ms,
        tuple(sorted(held.partitions)),
    )
