"""Who asked for what is being done. A request has tasks of its own, which see its caller; upkeep has none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from strandline.security.quotas.bill import Bill
from strandline.vocabulary.state_changes import AskedBy

_ASKED_BY: Final[ContextVar[AskedBy | None]] = ContextVar("asked_by", default=None)
_BILL: Final[ContextVar[Bill | None]] = ContextVar("bill", default=None)


def asked_by() -> AskedBy | None:
    """None: no caller asked for it."""
    return _ASKED_BY.get()


def bill() -> Bill | None:
    """What counts for the caller's quotas; None: nothing does."""
    return _BILL.get()


@contextmanager
def doing_for(by: AskedBy | None, bill: Bill | None = None) -> Iterator[None]:
    """What is begun within it is done for this caller, and counts for its quotas."""
    asked_by_token, bill_token = _ASKED_BY.set(by), _BILL.set(bill)
    try:
        yield
    finally:
        _BILL.reset(bill_token)
        _ASKED_BY.reset(asked_by_token)
