"""Who asked for what is being done. A request has tasks of its own, which see its caller; upkeep has none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from strandline.vocabulary.state_changes import AskedBy

_ASKED_BY: Final[ContextVar[AskedBy | None]] = ContextVar("asked_by", default=None)


def asked_by() -> AskedBy | None:
    """None: no caller asked for it."""
    return _ASKED_BY.get()


@contextmanager
def doing_for(by: AskedBy | None) -> Iterator[None]:
    """What is begun within it is done for this caller."""
    token = _ASKED_BY.set(by)
    try:
        yield
    finally:
        _ASKED_BY.reset(token)
