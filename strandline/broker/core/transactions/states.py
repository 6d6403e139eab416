"""Every legal transition of a transactional id's state.

    Empty            a producer has it, and has not begun a transaction
    Ongoing          a transaction with at least one partition is open
    PrepareCommit    it is decided that the transaction commits; its markers are being written
    PrepareAbort     the same, and it aborts
    CompleteCommit   the markers of the last transaction are in all of its logs
    CompleteAbort    the same after an abort; or the producer aborted where there was nothing
    Dead             forgotten here: expired, or refused because one of its records or turns failed

Kafka's PrepareEpochFence is no state here: the record that decides to abort has the raised epoch itself. An
illegal transition is a defect of the coordinator and fails fast with the values.
"""

from __future__ import annotations

from typing import Final

from strandline import states
from strandline.vocabulary.transactions import TransactionState

_S = TransactionState

IDLE: Final = frozenset({_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT})
"""No transaction is open: the id may expire, or get another producer."""
ENDING: Final = frozenset({_S.PREPARE_COMMIT, _S.PREPARE_ABORT})
COMMITS: Final = frozenset({_S.PREPARE_COMMIT, _S.COMPLETE_COMMIT})

_FROM_IDLE: Final = frozenset({_S.EMPTY, _S.ONGOING, _S.COMPLETE_ABORT, _S.DEAD})

LEGAL: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    _S.EMPTY: _FROM_IDLE,
    _S.ONGOING: frozenset({_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT, _S.DEAD}),
    _S.PREPARE_COMMIT: frozenset({_S.COMPLETE_COMMIT, _S.DEAD}),
    _S.PREPARE_ABORT: frozenset({_S.COMPLETE_ABORT, _S.DEAD}),
    _S.COMPLETE_COMMIT: _FROM_IDLE,
    _S.COMPLETE_ABORT: _FROM_IDLE,
    _S.DEAD: frozenset(),
}


def transition(
    transactional_id: str, current: TransactionState, wanted: TransactionState
) -> TransactionState:
    """`wanted`, if that may follow `current`. Raises IllegalTransition with the values."""
    return states.transition(f"transactional id {transactional_id}", current, wanted, LEGAL)
