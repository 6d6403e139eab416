"""The last epochs of a producer id. Each case takes up where the one before it ended, since to wear an id out
takes most of a minute."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from strandline_lab.conformance.case import Call, Case, Topic, Transaction
from strandline_lab.conformance.cases.produce import PRODUCER, produced
from strandline_lab.conformance.cases.transactions.steps import (
    BY_SECOND,
    ID,
    MS,
    SECOND,
    begun,
    ending,
    shown,
    transactional,
)

LAST: Final = 32_766
"""The last epoch that a client gets; the one after it is for fencing."""
WORN: Final = "epochs.worn"
WRITTEN: Final = Topic("epochs.written")
_WORN_OUT: Final = replace(begun(WORN), times=LAST)
"""The first producer has epoch 0, and so the last of these the one before the last."""
_SHOWN: Final = replace(shown(WORN, "Empty"), take={PRODUCER: "TransactionStates.0.ProducerId"})
_WRITTEN: Final = Call(
    "Produce",
    produced(WRITTEN.name, (0, transactional(0, LAST)), TransactionalId=WORN),
    version=BY_SECOND,
)


def _case(name: str, call: Call, *before: Call) -> Case:
    return Case(f"epochs: {name}", call, before=before, topics=(WRITTEN,), since=SECOND, until=SECOND)


_TO_LAST: Final = Call(
    "InitProducerId",
    {"TransactionalId": WORN, "TransactionTimeoutMs": MS, "ProducerId": ID, "ProducerEpoch": LAST - 1},
    to=Transaction(WORN),
)
_COMMIT: Final = Call("EndTxn", ending(WORN, committed=True, ProducerEpoch=LAST), to=Transaction(WORN))

CASES: Final = (
    _case("to the last one", _TO_LAST, _WORN_OUT),
    _case("to the last one again", _TO_LAST, _SHOWN),
    _case(
        "a commit with the last one, again",
        _COMMIT,
        _SHOWN,
        _WRITTEN,
        replace(_COMMIT, version=SECOND),
        shown(WORN, "CompleteCommit"),
    ),
)
