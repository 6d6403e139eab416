"""What a producer with a transactional id may do, and what each answer and each error changes.

States, and the legal next ones (KIP-98, KIP-890):

NONE      no transaction is open                                                     -> OPEN
OPEN      records and offsets are sent in it                                         -> FAILED, ENDING
FAILED    a part was not delivered, or may not have been: it can only be aborted     -> ENDING
ENDING    nothing more is sent, and its end is asked for                             -> NONE, OVER
OVER      another producer has the transactional id, or the end is not known         -> none

Each transaction has an epoch of its own. So a leader refuses a batch that comes after the end of its
transaction, and the coordinator gives the same answer to the same question for the end.
"""

from __future__ import annotations

from enum import Enum, auto

from strandline.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    Outcome,
    OutcomeUnknown,
    ProducerFenced,
    StrandlineError,
    TransactionAbortable,
)
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import NO_PRODUCER, EndTransaction


class State(Enum):
    NONE = auto()
    OPEN = auto()
    FAILED = auto()
    ENDING = auto()
    OVER = auto()


class TransactionCore:
    """The transactions of one producer, one after the other."""

    __slots__ = ("_timeout_ms", "_used", "error", "identity", "state", "transactional_id")

    def __init__(self, transactional_id: str, timeout_ms: int) -> None:
        """`timeout_ms`: of its transactions, for the errors of those that take longer."""
        self.transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self.identity = NO_PRODUCER
        """Of the open transaction, or of the next one."""
        self.state = State.NONE
        self.error: StrandlineError | None = None
        """Why the transaction cannot be committed, or why the producer is over; else None."""
        self._used = False
        """Something was sent in the transaction, so that its coordinator may know of it."""

    def begin(self) -> None:
        """Raises InvalidTransactionState if a transaction is open, and the error of a producer that is
        over."""
        self._check_not_over()
        if self.state is not State.NONE:
            raise InvalidTransactionState(f"{self} has a transaction: end it before the next one begins")
        self.state, self._used = State.OPEN, False

    def use(self) -> None:
        """Something is about to be sent in the transaction. Raises InvalidTransactionState unless one is
        open, TransactionAbortable if it has failed, and the error of a producer that is over."""
        self._check_not_over()
        if self.state is State.FAILED:
            raise self._abortable(self._reason())
        if self.state is not State.OPEN:
            raise InvalidTransactionState(f"{self} has no transaction: send within `producer.transaction()`")
        self._used = True

    def failed(self, error: StrandlineError) -> StrandlineError:
        """A part of the transaction was not delivered, or may not have been. Returns what the caller is to
        get: TransactionAbortable for a part that comes after the transaction's end.

        The brokers that take the parts know that the epoch is over, and not why. Only the coordinator's
        answer to the question for the end tells whether another producer has the id (KIP-890).
        """
        if self.state is State.OPEN:
            self.state = State.FAILED
        after_end = isinstance(error, ProducerFenced | InvalidProducerEpoch)
        reason = self._ended_before(error, twin=True) if after_end else error
        if self.state in (State.FAILED, State.ENDING) and self.error is None:
            self.error = reason
        return self._abortable(reason) if after_end else error

    # --- the end -----------------------------------------------------------------------------

    def ending(self) -> None:
        """Nothing more is sent in the transaction. Raises InvalidTransactionState if none is open, and the
        error of a producer that is over."""
        self._check_not_over()
        if self.state not in (State.OPEN, State.FAILED):
            raise InvalidTransactionState(f"{self} has no transaction that could be ended")
        self.state = State.ENDING

    def question(self, *, commit: bool) -> EndTransaction | None:
        """What to ask of the coordinator, for a commit once all that was sent is delivered; None if nothing
        was sent: the transaction has ended with that. Raises TransactionAbortable for a commit if a part has
        failed."""
        assert self.state is State.ENDING, f"{self} is {self.state}"
        if commit and self.error is not None:
            raise self._abortable(self.error)
        if not self._used:
            self.ended(self.identity)
            return None
        return EndTransaction(self.transactional_id, self.identity, commit, next_epoch=True)

    def ended(self, identity: ProducerIdentity) -> None:
        """The transaction has ended as it was asked for; the next one has this identity."""
        self.state, self.identity, self.error = State.NONE, identity, None

    def refused(self, error: StrandlineError, *, commit: bool) -> StrandlineError:
        """The coordinator has refused the end, or has not answered. Returns what the caller is to get.

        TransactionAbortable: the abort is to be asked for now. A transaction that was aborted before its
        commit, for its timeout or by an administrator, gives the next identity that way. After any other
        error this producer cannot know its next identity, and is over.
        """
        if commit and isinstance(error, InvalidTransactionState | TransactionAbortable):
            abortable = isinstance(error, TransactionAbortable)
            self.error = error if abortable else self._ended_before(error, twin=False)
            return self._abortable(self.error)
        if error.outcome is not Outcome.FATAL:
            what = "commit" if commit else "abort"
            error = OutcomeUnknown(f"{self}: whether the {what} took effect is not known: {error.message}")
        self.state, self.error = State.OVER, error
        return error

    # --- errors ------------------------------------------------------------------------------

    def _check_not_over(self) -> None:
        if self.state is State.OVER:
            raise self._reason()

    def _reason(self) -> StrandlineError:
        assert self.error is not None, f"{self} is {self.state} without a reason"
        return self.error

    def _ended_before(self, error: StrandlineError, *, twin: bool) -> TransactionAbortable:
        """The transaction has ended without this producer. `twin`: another one may have the id."""
        others = "an administrator aborted it, or another producer has its id"
        reason = TransactionAbortable(
            f"its coordinator has ended it: it took longer than transaction_timeout_ms={self._timeout_ms}, "
            f"{others if twin else 'or an administrator aborted it'}"
        )
        reason.__cause__ = error
        return reason

    def _abortable(self, reason: StrandlineError) -> TransactionAbortable:
        error = TransactionAbortable(f"the transaction of {self} can only be aborted: {reason.message}")
        error.__cause__ = reason
        return error

    def __str__(self) -> str:
        return f"producer {self.transactional_id!r}"
