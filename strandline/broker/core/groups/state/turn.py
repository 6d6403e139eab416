"""The state that the parts of a coordinator share: time, timers, writes in flight, and effects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from strandline.broker.core.coordinators.effects import Answer, Append, Call, Failed, Instant
from strandline.broker.core.coordinators.timers import Timers
from strandline.broker.core.groups.effects import Effect, EventKind, GroupEvent, Publish
from strandline.broker.core.groups.limits import GroupLimits
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.replay import replay
from strandline.broker.core.groups.state_bytes import StateBytes
from strandline.broker.core.groups.stored import Encoded, StoredRecord, kind_key, tombstone
from strandline.broker.core.groups.timers import Timer
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.security.principal import Principal
from strandline.vocabulary.asks import Answered
from strandline.vocabulary.configs.groups import GroupConfig, Times
from strandline.vocabulary.log import Transactional

OnResult = Callable[[int, StrandlineError | None], None]
"""Called with the write's id and its error, None if it is committed."""


@dataclass(frozen=True, slots=True)
class _Write:
    """A write in flight."""

    group: Group
    records: tuple[StoredRecord, ...]
    then: OnResult
    producer_id: int | None


class Turn:
    """The coordinator's present turn: each of its calls is `begin`, decisions, `end`."""

    __slots__ = (
        "_configs",
        "_effects",
        "_open",
        "_writes",
        "_writes_count",
        "by",
        "limits",
        "now",
        "state_bytes",
        "timers",
    )

    def __init__(self, limits: GroupLimits, configs: Callable[[str], GroupConfig]) -> None:
        self.limits = limits
        self._configs = configs
        self.state_bytes = StateBytes(limits.group_state_bytes_max)
        self.timers: Timers[Timer] = Timers()
        self.now = Instant(0.0, 0)
        self.by: Principal | None = None  # the caller; None: none, or callers are not distinguished
        self._effects: list[Effect] = []
        self._open: dict[Call[Any], str] = {}  # unanswered calls, with the group that they ask about
        self._writes: dict[int, _Write] = {}  # writes in flight
        self._writes_count = 0

    def begin(self, now: Instant, by: Principal | None = None) -> None:
        self.now = now
        self.by = by
        self._effects = []

    def end(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def times(self, group: str) -> Times:
        """Those in force in a group whose coordinator assigns."""
        return self.limits.consumer_times.times(self._configs(group))

    # --- effects -----------------------------------------------------------------------------

    def open(self, call: Call[Any], group: str) -> None:
        """A call that asks about this group has arrived."""
        self._open[call] = group

    def answer(self, call: Call[Answered], value: Answered | StrandlineError) -> None:
        self._open.pop(call, None)
        self._effects.append(Answer(call, value))

    def refuse_open(self, error: StrandlineError, *, of: str | None = None) -> None:
        """Answer every open call with `error`; if `of` is a group, only the calls about that group."""
        for call in [call for call, asked in self._open.items() if of in (None, asked)]:
            self.answer(call, error)

    def report_failure(self, group: str, held: str, error: Exception) -> None:
        self._effects.append(Failed(group, held, error))

    def append(
        self,
        group: Group,
        records: tuple[StoredRecord, ...],
        then: OnResult,
        encoded: Sequence[Encoded] = (),
        transaction: Transactional | None = None,
    ) -> int:
        """Have records of a group written. Once they are in the log they are replayed; then, or after a
        failure, `then` is called with the result. `encoded`: the records, from a caller that has encoded them
        already. Returns the write's id.

        Unless they are encoded, records of the group itself end what the log may still have of its other
        kind, in the same write."""
        if group.leftover and not encoded and kind_key(records[0]) is not None:
            for record in records:
                if (key := kind_key(record)) is not None:
                    group.leftover.pop(key, None)
            records = (*map(tombstone, group.leftover), *records)
        producer_id = None if transaction is None else transaction.producer.producer_id
        self._writes_count += 1
        self._writes[self._writes_count] = _Write(group, records, then, producer_id)
        encoded = encoded or [record.encoded() for record in records]
        headers = tuple(each for _, _, each in encoded)
        self._effects.append(
            Append(
                self._writes_count,
                tuple((key, value) for key, value, _ in encoded),
                headers if any(headers) else (),
                transaction,
            )
        )
        return self._writes_count

    def publish(
        self,
        kind: EventKind,
        group: str,
        generation: int,
        *,
        at_ms: int | None = None,
        member: str = "",
        reason: str = "",
        caused_by: str = "",
        partitions: tuple[TopicPartition, ...] = (),
    ) -> None:
        at_ms = self.now.wall_ms if at_ms is None else at_ms
        self.publish_event(GroupEvent(kind, group, generation, at_ms, member, reason, caused_by, partitions))

    def publish_event(self, event: GroupEvent) -> None:
        """Have a complete event published."""
        self._effects.append(Publish(event))

    # --- writes and timers -------------------------------------------------------------------

    @property
    def last_write(self) -> int:
        """The id of the last write that was requested; 0 before the first."""
        return self._writes_count

    @property
    def writes_in_flight(self) -> list[int]:
        """The ids of the writes without a result."""
        return list(self._writes)

    def group_of(self, write_id: int) -> str:
        """The group of a write in flight; empty for an unknown write."""
        return self._writes[write_id].group.name if write_id in self._writes else ""

    def ignore_writes_of(self, group: str) -> None:
        """Ignore the results of this group's writes."""
        for write_id in [key for key, write in self._writes.items() if write.group.name == group]:
            del self._writes[write_id]

    def settle(self, write_id: int, error: StrandlineError | None) -> None:
        """The result of a write; an unknown write is ignored."""
        write = self._writes.pop(write_id, None)
        if write is None:
            return
        if error is None:
            for record in write.records:
                key = kind_key(record)
                if key is not None and write.group.leftover.get(key, write_id) < write_id:
                    del write.group.leftover[key]
                replay(write.group, record, write_id, write.producer_id)
        write.then(write_id, error)

    def start(self, timer: Timer, after_ms: float) -> None:
        self.timers.set(timer, self.now.monotonic_s + after_ms / 1000)
