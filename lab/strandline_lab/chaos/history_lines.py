"""Writes a history in the form of `strandline verify`: one JSON line for each event."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TextIO, TypeVar

from strandline.errors import Outcome
from strandline.ports import Clock

GENERATION_UNKNOWN: Final = -1


class HistoryLines:
    """Writes each line at once, so that a killed client has written all events.

    Histories of several topics that go to one file share its `sequence`.
    """

    def __init__(self, topic: str, out: TextIO, clock: Clock, sequence: Iterator[int] | None = None) -> None:
        self._topic = topic
        self._out = out
        self._clock = clock
        self._sequence = itertools.count() if sequence is None else sequence
        self._counts: Counter[str] = Counter()

    # --- producers -----------------------------------------------------------------------------

    def sent(self, record: int, key: bytes | None, value: bytes, **more: Any) -> None:
        """A record is about to be passed to the client's library. `more`: further fields of the line."""
        self._note("sent", record=record, key=_text(key), value=_text(value), **more)

    def acked(self, record: int, partition: int, offset: int) -> None:
        """`offset` is negative if the broker no longer knew it: it recognized a record that it had."""
        self._note("acked", record=record, partition=partition, offset=max(offset, -1))

    def failed(self, record: int, code: int, error: str, outcome: Outcome, message: str) -> None:
        self._note("failed", record=record, **_failure(code, error, outcome, message))

    # --- readers -------------------------------------------------------------------------------

    def assigned(self, partitions: Sequence[int]) -> None:
        """A reader outside of groups begins."""
        self._note("assigned", partitions=sorted(partitions))

    def owned(self, event: str, partitions: Sequence[int], member: str) -> None:
        """Partitions of a group's member were `assigned`, `revoked` or `lost`. Neither library tells its
        user the generation."""
        self._note(
            event,
            partitions=sorted(partitions),
            member=member,
            generation=GENERATION_UNKNOWN,
            at_ms=self._clock.wall_ms(),
        )

    def received(
        self, partition: int, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None
    ) -> None:
        self._note(
            "received",
            partition=partition,
            offset=offset,
            timestamp=timestamp_ms,
            key=_text(key),
            value=_text(value),
        )

    def commit_acked(self, partition: int, offset: int) -> None:
        """A commit was acknowledged; `offset` is that of the next record to read."""
        self._note("commit_acked", partition=partition, offset=offset)

    def watermark(self, partition: int, offset: int, proven: int) -> None:
        """The broker answered with the high watermark `offset`. Before the request, all records below
        `proven` had been received."""
        self._note("watermark", partition=partition, offset=offset, proven=proven)

    # --- the end -------------------------------------------------------------------------------

    def error(self, code: int, error: str, message: str) -> None:
        """The client cannot continue."""
        self._note("error", **_failure(code, error, Outcome.FATAL, message))

    def summary(self) -> None:
        """The last line."""
        self._note(
            "summary", **{name: self._counts[name] for name in ("sent", "acked", "failed", "received")}
        )

    def _note(self, event: str, **facts: Any) -> None:
        self._counts[event] += 1
        line = {
            "event": event,
            "seq": next(self._sequence),
            "at": self._clock.wall_ms(),
            "monotonic_ms": round(self._clock.monotonic() * 1000, 3),
            "topic": self._topic,
            **facts,
        }
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()


Stopped = Callable[[], bool]
"""True once the client was asked to end."""

Partition = TypeVar("Partition")


def all_received(proven: Mapping[Partition, int], ends: Mapping[Partition, int]) -> bool:
    """True if all records below the high watermarks `ends` were received: of each partition those below
    `proven` were. An end that no broker answered with is unknown."""
    return len(ends) == len(proven) and all(proven[each] >= end for each, end in ends.items())


def _failure(code: int, error: str, outcome: Outcome, message: str) -> dict[str, Any]:
    return {"code": code, "error": error, "outcome": outcome.value, "message": message}


def _text(data: bytes | None) -> str | None:
    """Values of a round are text. One that is none was sent by no client, and differs from all that were."""
    return None if data is None else data.decode(errors="backslashreplace")
