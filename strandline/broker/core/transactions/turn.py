"""The state that the parts of a coordinator share: time, ids, timers, writes in flight, and effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from strandline.broker.core.coordinators.effects import Answer, Append, Call, Failed, Instant
from strandline.broker.core.coordinators.timers import Timers
from strandline.broker.core.transactions.effects import (
    AbortReason,
    Effect,
    EventKind,
    Publish,
    TransactionEvent,
)
from strandline.broker.core.transactions.entry import Entry, Write
from strandline.broker.core.transactions.limits import TransactionLimits
from strandline.broker.core.transactions.records import encode_headers, encode_key, encode_value
from strandline.broker.core.transactions.transaction import Transaction
from strandline.errors import ConcurrentTransactions, CoordinatorNotAvailable, StrandlineError
from strandline.vocabulary.asks import Answered


class Turn:
    """The coordinator's present turn: each of its calls is `begin`, decisions, `end`."""

    __slots__ = (
        "_effects",
        "_writes",
        "_writes_count",
        "entries",
        "limits",
        "now",
        "open_partitions",
        "timers",
    )

    def __init__(self, limits: TransactionLimits) -> None:
        self.limits = limits
        self.entries: dict[str, Entry] = {}
        self.timers: Timers[str] = Timers()
        self.now = Instant(0.0, 0)
        self.open_partitions = 0  # of all transactions that are open or ending
        self._effects: list[Effect] = []
        self._writes: dict[int, Entry] = {}  # by the ids of writes in flight
        self._writes_count = 0

    def begin(self, now: Instant) -> None:
        self.now = now
        self._effects = []

    def end(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    # --- effects -----------------------------------------------------------------------------

    def add(self, effect: Effect) -> None:
        self._effects.append(effect)

    def answer(self, call: Call[Answered], value: Answered | StrandlineError) -> None:
        self._effects.append(Answer(call, value))

    def publish(self, kind: EventKind, of: Transaction, reason: AbortReason | None = None) -> None:
        event = TransactionEvent(
            kind, of.transactional_id, of.producer, self.now.wall_ms, of.partitions, reason
        )
        self._effects.append(Publish(event))

    def start(self, name: str, after_ms: float) -> float:
        """Set a timer. Returns its deadline."""
        at_s = self.now.monotonic_s + after_ms / 1000
        self.timers.set(name, at_s)
        return at_s

    # --- writes ------------------------------------------------------------------------------

    def check_idle(self, entry: Entry) -> None:
        """Raises ConcurrentTransactions while a write is in flight."""
        if entry.writing is not None:
            raise ConcurrentTransactions(
                f"transactional id {entry.transactional_id}: an earlier request is being written"
            )

    def write(
        self,
        entry: Entry,
        wanted: Transaction | None,
        call: Call[Any] | None = None,
        answer: Any = None,
        reason: AbortReason | None = None,
    ) -> None:
        """Have this written, as `Write` says. None: a tombstone."""
        assert entry.writing is None, f"{entry}: two writes at a time"
        self._writes_count += 1
        entry.writing = Write(self._writes_count, wanted, call, answer, reason)
        self._writes[self._writes_count] = entry
        value = None if wanted is None else encode_value(wanted)
        headers = () if wanted is None else encode_headers(wanted)
        records = ((encode_key(entry.transactional_id), value),)
        self._effects.append(Append(self._writes_count, records, (headers,) if headers else ()))

    def take_written(self, write_id: int) -> Entry | None:
        """The id of a write in flight, of which the result has come; None: the result does not matter."""
        return self._writes.pop(write_id, None)

    def hold(self, entry: Entry, held: Transaction | None) -> None:
        """This is in the log now; None: nothing of this id."""
        before = 0 if entry.held is None else len(entry.held.partitions)
        self.open_partitions += (0 if held is None else len(held.partitions)) - before
        entry.held, entry.refusal = held, None
        if held is None:
            self.entries.pop(entry.transactional_id, None)

    # --- failures ----------------------------------------------------------------------------

    def run(self, entry: Entry, act: Callable[[], None], call: Call[Any] | None = None) -> None:
        """Run a turn of one transactional id, which handles `call`. An exception ends this id on this
        coordinator, not the process.

        An error that is not a StrandlineError is a defect, and elsewhere ends the process at once. But the
        records by which it came are there again after a restart, and on each broker that takes over.
        """
        try:
            act()
        except Exception as error:
            self._end_id(entry, error, call)

    def _end_id(self, entry: Entry, error: Exception, call: Call[Any] | None) -> None:
        name = entry.transactional_id
        refusal = CoordinatorNotAvailable(
            f"transactional id {name} is Dead on this coordinator, one of its turns failed with "
            f"{error!r:.200}; have its partition of the transactions' topic led elsewhere"
        )
        answered = [effect.call for effect in self._effects if isinstance(effect, Answer)]
        for waiting in (call, entry.writing.call if entry.writing is not None else None):
            if waiting is not None and waiting not in answered:
                self.answer(waiting, refusal)
        self._effects.append(Failed(name, repr(entry.held), error))
        self.timers.cancel(name)
        entry.writing, entry.refusal = None, refusal
        self.entries[name] = entry

    def clear(self, error: StrandlineError) -> None:
        """Forget everything; calls that wait are answered with `error`."""
        for entry in self._writes.values():
            if entry.writing is not None and entry.writing.call is not None:
                self.answer(entry.writing.call, error)
        self.entries.clear()
        self.timers.clear()
        self._writes.clear()
        self.open_partitions = 0
