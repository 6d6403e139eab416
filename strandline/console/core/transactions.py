"""Transactions as pages show them: which are listed, and in which words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from strandline.console.core.words import counted, duration
from strandline.vocabulary.transactions import ListedTransaction, LogTransactions, TransactionState

STATES: Final = tuple(state.value for state in TransactionState)
WORDS: Final = {
    TransactionState.EMPTY: "none yet",
    TransactionState.ONGOING: "open",
    TransactionState.PREPARE_COMMIT: "committing",
    TransactionState.PREPARE_ABORT: "aborting",
    TransactionState.COMPLETE_COMMIT: "committed",
    TransactionState.COMPLETE_ABORT: "aborted",
    TransactionState.DEAD: "failed",
}
KINDS: Final = {
    TransactionState.ONGOING: "good",
    TransactionState.PREPARE_COMMIT: "warn",
    TransactionState.PREPARE_ABORT: "warn",
    TransactionState.DEAD: "bad",
}
"""How a state looks beside its words; any other is quiet."""


def searched(listed: Iterable[ListedTransaction], text: str, state: str) -> list[ListedTransaction]:
    """Those whose id contains the text, in any case, and that are in the state; empty: in any. The
    transaction that is open for longest is first, ids without one are last."""
    wanted = text.casefold()
    found = [
        each
        for each in listed
        if wanted in each.transactional_id.casefold() and (not state or each.state.value == state)
    ]
    return sorted(found, key=lambda each: (each.started_ms < 0, each.started_ms, each.transactional_id))


def states_of(listed: Iterable[ListedTransaction]) -> Sequence[tuple[TransactionState, int]]:
    """Each state that there is, with the number of ids in it."""
    counts = Counter(each.state for each in listed)
    return [(state, counts[state]) for state in TransactionState if state in counts]


def age(started_ms: int, now_ms: int) -> str:
    """For how long a transaction is open.

    >>> age(1_000, 62_000), age(-1, 62_000)
    ('1 min 1 s', '–')
    """
    return "–" if started_ms < 0 else duration(max(0, now_ms - started_ms))


def open_words(log: LogTransactions, now_ms: int) -> str:
    """What is open in a log, and where readers of committed records wait; empty if nothing is."""
    if not log.opened:
        return ""
    first = log.opened[0]
    return (
        f"{counted(log.count, 'transaction')} open, the first for {age(first.began_ms, now_ms)} "
        f"from offset {first.first_offset:,}"
    )
