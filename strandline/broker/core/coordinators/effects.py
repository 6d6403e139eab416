"""A coordinator's inputs and effects, as values.

A driver carries the effects of a call out in their order. An answer that depends on a write is not
among the effects of the call that requested the write, but among those of `appended`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Generic

from strandline.errors import StrandlineError
from strandline.records import Headers
from strandline.vocabulary.asks import Answered, Asks
from strandline.vocabulary.log import Transactional


class Call(ABC, Generic[Answered]):
    """One call that waits for its answer: an `Answered`, or the error that refuses it. The driver has a class
    of its own; a coordinator only passes the call back, in an `Answer`."""

    __slots__ = ()

    @abstractmethod
    def deliver(self, answer: Answered | StrandlineError) -> None:
        """Ends the wait. Called once, by the driver."""


def call_of(request: Asks[Answered], call: Call[Any]) -> Call[Answered]:
    """The call with the type of the answer that its request asks for."""
    return call


@dataclass(frozen=True, slots=True)
class Instant:
    """One moment on two clocks: timeouts use the monotonic clock, records and events the wall clock."""

    monotonic_s: float
    wall_ms: int
    expiry_ms: int | None = None
    """The time by which offsets expire, from retention's clock; None: `wall_ms`."""


# --- effects ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer(Generic[Answered]):
    """Answers a waiting call. Each call is answered exactly once."""

    call: Call[Answered]
    value: Answered | StrandlineError

    def deliver(self) -> None:
        self.call.deliver(self.value)


@dataclass(frozen=True, slots=True)
class Append:
    """Write these (key, value) records in one batch; None for a value is a tombstone.

    Then call `appended` with `write_id`: no error once the batch is committed. Batches go into the log in
    the order of these effects; results may come back in any order.
    """

    write_id: int
    records: tuple[tuple[bytes, bytes | None], ...]
    headers: tuple[Headers, ...] = ()
    """Of each record; empty: none has any."""
    transaction: Transactional | None = None
    """The transaction that the records are part of: they are in no batch with others."""

    def each(self) -> Iterator[tuple[bytes, bytes | None, Headers]]:
        """Key, value and headers of each record."""
        headers = self.headers or repeat(())
        return ((key, value, of_one) for (key, value), of_one in zip(self.records, headers, strict=False))


@dataclass(frozen=True, slots=True)
class Failed:
    """A turn of a group or of a transactional id raised `error`: a defect, or input that no check foresaw.
    The one of that name is Dead.

    To be logged with the traceback. `held` describes it before, empty for one that was not known.
    """

    name: str
    held: str
    error: Exception
