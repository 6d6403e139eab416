"""The requests that a coordinator handles, as values. Each names the type of its answer (`Asks`).

Some are those of `vocabulary/transactions.py`. The others are here: they carry what the driver adds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from strandline.ids import NO_PRODUCER as NO_ID
from strandline.vocabulary.asks import Asks
from strandline.vocabulary.log import ProducerIdentity
from strandline.vocabulary.transactions import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitTransactions,
    ListTransactions,
)


@dataclass(frozen=True, slots=True)
class Initialize(Asks[ProducerIdentity]):
    """`new_id` is an id that no producer has; NO_ID: the driver has none at hand. It is used if the
    transactional id is new, or its epochs are used up. If it is needed and missing, the client is asked to
    come again (`TransactionCoordinator.needs_producer_id`)."""

    request: InitTransactions
    new_id: int = NO_ID

    @property
    def transactional_id(self) -> str:
        return self.request.transactional_id


@dataclass(frozen=True, slots=True)
class End(Asks[ProducerIdentity]):
    """`new_id` as in `Initialize`: a request with `next_epoch` needs it once the epochs are used up."""

    request: EndTransaction
    new_id: int = NO_ID

    @property
    def transactional_id(self) -> str:
        return self.request.transactional_id


@dataclass(frozen=True, slots=True)
class AbortTransaction(Asks[None]):
    """An administrator aborts what is open under this id, as if its timeout had come. Answered once the
    decision is in the log. Refused by InvalidTransactionState if nothing is open or if it commits, and by
    TransactionalIdNotFound."""

    transactional_id: str


RequestOfOne = Initialize | AddPartitions | End | AbortTransaction | DescribeTransaction
"""About one transactional id."""

Request = RequestOfOne | ListTransactions


def as_request(asked: Asks[Any]) -> Request:
    """The request as one of those that a coordinator handles."""
    assert isinstance(asked, Request), f"no coordinator handles {asked!r}"
    return asked
