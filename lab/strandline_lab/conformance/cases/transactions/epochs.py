"""The last epochs of a producer id. Each of these cases takes up where the one before it ended: to wear an id
out takes most of a minute."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from strandline_lab.conformance.case import Call, Case, Topic, Transaction
from strandline_lab.conformance.cases.produce import PRODUCER, produced
from strandline_lab.conformance.cases.transactions.steps import (
    ID,
    MS,
    begun,
    ending,
    shown,
    transactional,
)

LAST: Final = 32_766
"""The last epoch that a client gets; the one after it is for fencing."""
VERSION: Final = 5
ADDING: Final = 12
WORN: Final = "epochs.worn"
WRITTEN: Final = Topic("epochs.written")


def _worn(own: str, epoch: int) -> Call:
    """The first producer has epoch 0, the next one 1."""
    return replace(begun(own), times=epoch + 1)


def _init(name: str, *before: Call, epoch: int) -> Case:
    body = {"TransactionalId": WORN, "TransactionTimeoutMs": MS, "ProducerId": ID, "ProducerEpoch": epoch}
    call = Call("InitProducerId", body, to=Transaction(WORN))
    return Case(f"epochs: {name}", call, before=before, since=VERSION, until=VERSION)


_SHOWN: Final = replace(shown(WORN, "Empty"), take={PRODUCER: "TransactionStates.0.ProducerId"})
_LAST_USED: Final = _init("", epoch=LAST).call


def _ended(name: str, *before: Call, committed: bool) -> Case:
    own = "epochs.ended"
    body = ending(own, committed=committed, ProducerEpoch=LAST)
    return Case(
        f"epochs: {name}",
        Call("EndTxn", body, to=Transaction(own)),
        before=before,
        topics=(WRITTEN,),
        since=VERSION,
        until=VERSION,
    )


_WRITE: Final = Call(
    "Produce",
    produced(WRITTEN.name, (0, transactional(0, LAST)), TransactionalId="epochs.ended"),
    version=ADDING,
)

CASES: Final = (
    _init("to the last one", _worn(WORN, LAST - 1), epoch=LAST - 1),
    _init("to the last one again", _SHOWN, epoch=LAST - 1),
    _init("beyond the last one, again", _SHOWN, replace(_LAST_USED, version=VERSION), epoch=LAST),
    _ended("a commit with the last one", _worn("epochs.ended", LAST), _WRITE, committed=True),
)
