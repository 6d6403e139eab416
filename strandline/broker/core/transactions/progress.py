"""What follows from a record that is in the log, and what a coordinator does without being asked: timeouts,
markers, and the end after them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from strandline.broker.core.coordinators.unwritten import unwritten
from strandline.broker.core.transactions import decisions
from strandline.broker.core.transactions.effects import AbortReason, EventKind, SendMarkers
from strandline.broker.core.transactions.entry import Entry, Write
from strandline.broker.core.transactions.transaction import Transaction
from strandline.broker.core.transactions.turn import Turn
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.vocabulary.transactions import TransactionState

WRITE_AGAIN_MS: Final = 1_000
"""After a write failed that no client asked for: an abort for a timeout, or the end of a transaction."""
WRITE_AGAIN_EACH_MS: Final = 10
"""The same, for each id that has a timer, if that is longer: a hundred are tried again a second, else ten
thousands whose log takes no records would take all of the broker's time."""


def resume(turn: Turn, entry: Entry) -> None:
    """Continue from what the last coordinator has written."""
    held = entry.held
    if held is not None and held.state is TransactionState.ONGOING:
        # The time at which it began is another broker's: that clock may be wrong by any amount.
        allowed_ms = min(held.timeout_ms, turn.limits.transaction_max_timeout_ms)
        left_ms = held.started_ms + held.timeout_ms - turn.now.wall_ms
        entry.deadline_s = turn.start(entry.transactional_id, min(max(left_ms, 0), allowed_ms))
    elif held is not None and held.ending:
        _mark(turn, entry, held)


def settle(turn: Turn, entry: Entry, write: Write, error: StrandlineError | None) -> None:
    """The result of a write."""
    entry.writing = None
    if error is not None:
        _not_written(turn, entry, write, error)
        return
    before, held = entry.held, write.wanted
    turn.hold(entry, held)
    if write.call is not None:
        turn.answer(write.call, write.answer)
    if held is None:
        return
    if held.state is TransactionState.ONGOING:
        if before is None or before.idle:
            entry.deadline_s = turn.start(entry.transactional_id, held.timeout_ms)
            turn.publish(EventKind.BEGUN, held)
        else:
            turn.timers.set(entry.transactional_id, entry.deadline_s)  # it may have come meanwhile
    elif held.ending:
        _mark(turn, entry, held)
        if held.commits:
            turn.publish(EventKind.COMMITTING, held)
        else:
            turn.publish(EventKind.ABORTING, held, write.reason)
    elif before is not None and before.ending:
        turn.publish(EventKind.COMPLETED, before)


def _not_written(turn: Turn, entry: Entry, write: Write, error: StrandlineError) -> None:
    """The state is as before. What no client asks for again is written again after a while."""
    name, held = entry.transactional_id, entry.held
    if write.call is not None:
        turn.answer(write.call, unwritten(f"a change of transactional id {name}", error))
    if held is None:
        turn.hold(entry, None)
    elif held.state is TransactionState.ONGOING:
        again_s = turn.now.monotonic_s + _again_ms(turn) / 1000
        turn.timers.set(name, max(entry.deadline_s, again_s))
    elif held.ending:
        turn.start(name, _again_ms(turn))


def _again_ms(turn: Turn) -> int:
    return max(WRITE_AGAIN_MS, WRITE_AGAIN_EACH_MS * len(turn.timers))


def due(turn: Turn, entry: Entry) -> None:
    """The timer of an id: its open transaction has run out of time, or its end is to be written again."""
    held = entry.held
    if held is None or entry.writing is not None:
        return  # the result of the write sets the timer again, if it still matters
    if held.state is TransactionState.ONGOING:
        turn.write(entry, decisions.timed_out(held, turn.now.wall_ms), reason=AbortReason.TIMEOUT)
    else:
        _complete(turn, entry, held)


def marked(turn: Turn, entry: Entry, held: Transaction, partitions: Collection[TopicPartition]) -> None:
    """The markers of these partitions are in their logs."""
    entry.unmarked.difference_update(partitions)
    _complete(turn, entry, held)


def _mark(turn: Turn, entry: Entry, held: Transaction) -> None:
    turn.timers.cancel(entry.transactional_id)
    entry.unmarked = set(held.partitions)
    if held.partitions:
        turn.add(SendMarkers(entry.transactional_id, held.producer, held.commits, held.partitions))
    else:
        _complete(turn, entry, held)


def _complete(turn: Turn, entry: Entry, held: Transaction) -> None:
    if held.ending and not entry.unmarked and entry.writing is None:
        turn.write(entry, held.completed(turn.now.wall_ms))
