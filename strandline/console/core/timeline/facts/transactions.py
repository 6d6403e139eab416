"""The transactions of one transactional id, out of the records of `__transaction_state`. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from strandline.broker.core.transactions.transaction import Transaction
from strandline.console.core.timeline.places import TOPICS, Source, event_id, pack
from strandline.console.core.timeline.rows import TransactionRow, Turn
from strandline.console.core.words import counted
from strandline.report.text.partition_names import compact
from strandline.vocabulary.transactions import TransactionState

ENDS: Final = {
    TransactionState.COMPLETE_COMMIT: "committed",
    TransactionState.COMPLETE_ABORT: "aborted",
}
OPEN: Final = {
    TransactionState.ONGOING: "open",
    TransactionState.PREPARE_COMMIT: "committing",
    TransactionState.PREPARE_ABORT: "aborting",
}
"""The states that a bar shows; others stand between two transactions."""


class Changed(NamedTuple):
    """A record of the id, written at `at_ms`. None: the id was forgotten."""

    partition: int
    offset: int
    at_ms: int
    held: Transaction | None


def row_of(transactional_id: str, changes: Iterable[Changed]) -> TransactionRow:
    """Its row. `changes`: in the order of their offsets. The records with which one transaction gets more
    partitions are one step."""
    row = TransactionRow(transactional_id)
    turn: tuple[TransactionState, int] | None = None
    steps: list[tuple[Changed, Turn]] = []
    for change in changes:
        held = change.held
        state = TransactionState.EMPTY if held is None else held.state
        count = 0 if held is None else len(held.partitions)
        same = (state, -1 if held is None else held.started_ms)
        if same == turn:
            steps[-1] = (steps[-1][0], Turn(state, count))
        else:
            steps.append((change, Turn(state, count)))
        turn = same
    for change, step in steps:
        ref = pack(Source.TRANSACTION, change.partition, change.offset)
        row.turns.add(change.at_ms, step, ref, change.offset)
        if step.state in ENDS:
            row.ends.add(change.at_ms, ENDS[step.state], ref)
    return row


def explained(change: Changed) -> dict[str, Any]:
    """The answer for one event."""
    ref = pack(Source.TRANSACTION, change.partition, change.offset)
    held = change.held
    fields: dict[str, Any] = {}
    if held is not None:
        fields = {
            "transactional_id": held.transactional_id,
            "state": held.state.value,
            "producer_id": held.producer.producer_id,
            "producer_epoch": held.producer.producer_epoch,
            "timeout_ms": held.timeout_ms,
            "partitions": compact(sorted(held.partitions)),
        }
    return {
        "id": event_id(ref),
        "at": change.at_ms,
        "sentence": sentence(held),
        "cause": "",
        "record": {
            "topic": TOPICS[Source.TRANSACTION],
            "partition": change.partition,
            "offset": change.offset,
        },
        "fields": fields,
        "before": {},
        "after": {},
        "related": [],
    }


def sentence(held: Transaction | None) -> str:
    """What a record says."""
    if held is None:
        return "The transactional id was forgotten: no producer had used it for long."
    name, parts = held.transactional_id, counted(len(held.partitions), "partition")
    match held.state:
        case TransactionState.EMPTY:
            return f"A producer took the transactional id {name}."
        case TransactionState.ONGOING:
            return f"A transaction of {name} is open, in {parts}."
        case TransactionState.PREPARE_COMMIT:
            return f"The commit of a transaction of {name} is decided; its markers go to {parts}."
        case TransactionState.PREPARE_ABORT:
            return f"The abort of a transaction of {name} is decided; its markers go to {parts}."
        case _:
            end = ENDS.get(held.state, held.state.value)
            return f"A transaction of {name} is {end}, in all of its partitions."
