"""Errors of transactions and their coordinators (KIP-98, KIP-360, KIP-890)."""

from __future__ import annotations

from strandline.error_codes import ErrorCode
from strandline.errors.base import Retriable, StrandlineError


class InvalidTransactionState(StrandlineError):
    """The transaction is not in a state in which this can be done: it has ended, or was never begun."""

    code = ErrorCode.INVALID_TXN_STATE


class InvalidProducerIdMapping(StrandlineError):
    """The transactional id does not belong to this producer id, or is not known."""

    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class InvalidTransactionTimeout(StrandlineError):
    """The timeout is not positive, or above `transaction.max.timeout.ms`, which is `limit`."""

    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT


class ConcurrentTransactions(Retriable):
    """The producer's last transaction is being ended. Nothing was done: ask again soon."""

    code = ErrorCode.CONCURRENT_TRANSACTIONS


class TransactionCoordinatorFenced(StrandlineError):
    """The markers come from a coordinator that was replaced."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class ProducerFenced(StrandlineError):
    """A newer producer has this transactional id. From brokers also after the transaction was aborted for its
    timeout: a producer of this package raises TransactionAbortable then."""

    code = ErrorCode.PRODUCER_FENCED


class OperationNotAttempted(StrandlineError):
    """Nothing was done with this part of the request, since another part of it was refused."""

    code = ErrorCode.OPERATION_NOT_ATTEMPTED


class TransactionalIdNotFound(StrandlineError):
    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


class TransactionAbortable(StrandlineError):
    """The transaction cannot be committed: abort it, and begin another one."""

    code = ErrorCode.TRANSACTION_ABORTABLE


class UnstableOffsetCommit(Retriable):
    """An offset of the group waits for its transaction to end: ask again soon."""

    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
