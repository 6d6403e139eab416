"""Records the history of one client in memory, as the events that the checks judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from strandline.auditing.history import (
    Acked,
    Assigned,
    Event,
    Failed,
    Handled,
    History,
    Received,
    Sent,
    Unassigned,
    Watermark,
)
from strandline.auditing.reference import Logged
from strandline.errors import Outcome, StrandlineError


class Read(Protocol):
    """A record as a consumer returned it."""

    @property
    def offset(self) -> int: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...


class Recorder:
    """The history of one client of `topic`; `name` is what findings call it.

    Key and value of a record are kept together as one value, so that a record with another key differs too.
    """

    def __init__(self, name: str, topic: str) -> None:
        self.history = History(name)
        self._topic = topic

    def sent(self, record: int, key: bytes | None, value: bytes | None, partition: int | None) -> None:
        """Record number `record` is sent, to `partition` if the producer chose one."""
        self._add(Sent(self._seq, self._topic, record, content(key, value), partition))

    def acked(self, record: int, partition: int, offset: int) -> None:
        """A record was acknowledged; `offset` is -1 if the broker no longer knew it."""
        self._add(Acked(self._seq, self._topic, record, partition, offset))

    def failed(self, record: int, error: BaseException) -> None:
        """A record failed; an error without an outcome leaves open whether it was appended."""
        outcome = error.outcome if isinstance(error, StrandlineError) else Outcome.UNKNOWN
        self._add(Failed(self._seq, self._topic, record, outcome))

    def assigned(self, *partitions: int) -> None:
        """A reader begins to read these partitions."""
        self._add(Assigned(self._seq, self._topic, partitions))

    def unassigned(self, *partitions: int, in_order: bool) -> None:
        """A member gave these partitions up (`in_order`), or they were taken from it."""
        self._add(Unassigned(self._seq, self._topic, partitions, in_order))

    def handled(self, partition: int, offset: int) -> None:
        """A member has finished with a record that it received."""
        self._add(Handled(self._seq, self._topic, partition, offset))

    def received(self, partition: int, records: Iterable[Read]) -> None:
        """A reader received these records, in this order."""
        for each in records:
            value = content(each.key, each.value)
            self._add(Received(self._seq, self._topic, partition, each.offset, value))

    def watermark(self, partition: int, offset: int) -> None:
        """A reader learned the high watermark."""
        self._add(Watermark(self._seq, self._topic, partition, offset, 0))

    def log(self) -> Iterator[Logged]:
        """The records that this reader received, as the log: for a reader that read all of it."""
        for event in self.history.events:
            if isinstance(event, Received):
                yield Logged(self._topic, event.partition, event.offset, event.value)

    @property
    def _seq(self) -> int:
        return len(self.history.events)

    def _add(self, event: Event) -> None:
        self.history.events.append(event)


def content(key: bytes | None, value: bytes | None) -> bytes:
    """Key and value as one value."""
    return repr((key, value)).encode()
