"""The position of a reader in each partition, what to fetch next, and the handling of answers.

A partition has two positions: `position`, after the last record handed out, and `fetch_offset`,
after the last record fetched; the records in between are buffered. Any other change of a position
(a seek, another assignment) drops the buffered records, forgets the fetch in progress, so that its
answer is ignored, and gives the partition another *incarnation*, so that no reader continues at the
old position. A pause moves nothing: fetched records stay, as long as no other partition needs the
space.

Each position belongs to one log: one incarnation of the topic, with the epochs of the records that were read
(`LogPosition`). The leader compares both at each fetch. If the topic was made anew, the partition begins at
its first record; if the log has lost what was read, it goes back to where that epoch ends now (KIP-320).

A third position is `processed`: after the last record that the application has finished, or has
committed. It is safe to commit without asking the application.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Generic, NamedTuple, TypeVar

from strandline.client.core.effects import (
    Arrived,
    Cut,
    DelayFetch,
    DoubtLeader,
    Effect,
    FindPosition,
    MadeAnew,
    Refused,
    Reset,
    Waits,
)
from strandline.errors import (
    OffsetNotAvailable,
    OffsetOutOfRange,
    Outcome,
    StrandlineError,
    UnknownLeaderEpoch,
)
from strandline.ids import NO_BROKER, NO_EPOCH, NO_TOPIC_ID, TopicId, TopicPartition
from strandline.vocabulary.log import Fetched, FetchPartition
from strandline.vocabulary.log_position import EpochEnd, LogPosition, same_topic

BatchT = TypeVar("BatchT")


EPOCHS_MAX: Final = 32
"""Changes of the leader epoch that a position remembers; older ones are not compared."""


class ReadLog(NamedTuple):
    """The log that is read of a partition, as far as it is known; it does not change."""

    topic_id: TopicId
    epochs: Sequence[tuple[int, int]]
    """Offsets, and the epoch of the record at each and behind it; both increase."""
    position: int | None
    """Of the next record to hand out; None while it is searched for."""

    def at(self, offset: int) -> LogPosition:
        """An offset of this log, with the epoch of the record before it."""
        before = bisect_left(self.epochs, (offset, -1)) - 1
        return LogPosition(offset, self.topic_id, self.epochs[before][1] if before >= 0 else NO_EPOCH)


@dataclass(slots=True, eq=False)
class Position(Generic[BatchT]):
    """One assigned partition."""

    name: TopicPartition
    incarnation: int
    position: int | None = None
    """Offset of the next record to hand out; None until it is known."""
    handed_out: bool = False
    """True once a record was handed out."""
    processed: int | None = None
    """Never above `position`; any move other than handing out moves both."""
    committed: int | None = None
    """The offset that the group is known to have, so that it is not sent again."""
    lost: str = ""
    """Why the group took the partition from this consumer; empty if it did not."""
    fetch_offset: int = -1
    search: int = 0
    """Number of the position search in progress; 0: none."""
    topic_id: TopicId = NO_TOPIC_ID
    """The incarnation of the topic that is read."""
    epochs: list[tuple[int, int]] = field(default_factory=list)
    """As of `ReadLog`; replaced, and never changed in place."""
    anew: bool = False
    """True if another incarnation was read before: an offset of the application may be of that."""
    paused: bool = False
    blocked: bool = False
    """Not fetched, because the next batch cannot be handed out; until the position moves, or after
    a pause."""
    held: bool = False
    """Neither fetched nor handed out: not yet announced to the application, or about to move to
    another member."""
    high_watermark: int | None = None
    """The highest known: a new leader may report a lower one for a moment (CORRECTNESS H1)."""
    stable_offset: int | None = None
    """The same of LSO, for a reader of what is stable; else None."""
    log_start_offset: int | None = None
    broker: int = NO_BROKER
    leader_epoch: int = NO_EPOCH
    fetch: int = 0
    """Number of the fetch in progress; 0: none."""
    backing_off: bool = False
    attempts: int = 0
    buffered: deque[BatchT] = field(default_factory=deque)
    buffered_bytes: int = 0

    @property
    def lag(self) -> int | None:
        """The number of records that may be read and are not handed out yet; None while it is unknown."""
        stable, position = self.stable_offset, self.position  # each read once: another thread may ask
        end = self.high_watermark if stable is None else stable
        return None if end is None or position is None else max(0, end - position)

    @property
    def readable(self) -> bool:
        return not (self.paused or self.held)

    @property
    def log(self) -> ReadLog:
        return ReadLog(self.topic_id, self.epochs, self.position)

    def read(self, offset: int, epoch: int) -> None:
        """The record at this offset has this epoch."""
        if epoch != NO_EPOCH and (not self.epochs or self.epochs[-1][1] < epoch):
            self.epochs = [*self.epochs[1 - EPOCHS_MAX :], (offset, epoch)]

    def of_log(self, topic_id: TopicId) -> None:
        """The log that is read has this id; what is known of another one is forgotten."""
        if not same_topic(self.topic_id, topic_id):
            self.high_watermark = self.stable_offset = self.log_start_offset = self.committed = None
            self.epochs, self.handed_out, self.anew = [], False, True
        self.topic_id = topic_id or self.topic_id

    def saved(self, offset: int) -> None:
        """The group has this offset now. Nothing below it is committed again without a request."""
        self.committed = offset
        if self.processed is not None and self.position is not None:
            self.processed = max(self.processed, min(offset, self.position))


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """One fetch from one broker. `number` is the correlation id of its request."""

    number: int
    broker: int
    wanted: tuple[FetchPartition, ...]


class Positions(Generic[BatchT]):
    """All assigned partitions. The order of the dictionary is the order of their turns."""

    def __init__(
        self, *, partition_bytes: int, buffer_bytes: int, names_log: bool = True, stable: bool = False
    ) -> None:
        """`names_log`: fetches say which log their offsets belong to. Else the caller finds out itself.
        `stable`: only records of decided transactions are read."""
        self._names_log = names_log
        self._stable = stable
        self._partition_bytes = partition_bytes
        self._buffer_bytes = buffer_bytes
        self._positions: dict[TopicPartition, Position[BatchT]] = {}
        self._numbers = count(1)
        self._plans: dict[int, FetchPlan] = {}
        self.buffered_bytes = 0

    def __iter__(self) -> Iterator[Position[BatchT]]:
        return iter(self._positions.values())

    def __getitem__(self, name: TopicPartition) -> Position[BatchT]:
        """Raises KeyError for a partition that is not assigned."""
        return self._positions[name]

    def find(self, name: TopicPartition) -> Position[BatchT] | None:
        return self._positions.get(name)

    # --- calls of the user --------------------------------------------------------------------

    def assign(self, names: Iterable[TopicPartition]) -> list[Effect]:
        """Read these partitions and no others. Those that are already assigned keep their positions."""
        wanted = dict.fromkeys(names)
        self.drop([name for name in self._positions if name not in wanted])
        return self.add(wanted)

    def add(self, names: Iterable[TopicPartition], *, held: bool = False) -> list[Effect]:
        """Also read these partitions, once they are no longer held."""
        effects: list[Effect] = []
        for name in names:
            if name not in self._positions:
                self._positions[name] = Position(name, next(self._numbers), held=held)
                effects += self.unknown(name, Reset.POLICY)
        return effects

    def drop(self, names: Iterable[TopicPartition]) -> None:
        """Stop reading these partitions."""
        for name in names:
            self._renew(self._positions[name])
            del self._positions[name]

    def hold(self, names: Iterable[TopicPartition]) -> None:
        """Hand out and fetch nothing of these, and drop what is buffered (G9)."""
        for name in names:
            self._positions[name].held = True
            self._renew(self._positions[name])

    def let_go(self, names: Iterable[TopicPartition]) -> None:
        """End `hold`."""
        for name in names:
            self._positions[name].held = False

    def seek(self, name: TopicPartition, offset: int) -> None:
        """Hand out the record at `offset` next."""
        self.seek_to(name, LogPosition(offset))

    def seek_to(self, name: TopicPartition, at: LogPosition) -> None:
        """As `seek`, for an offset that was kept with the log that it belongs to."""
        state = self._positions[name]
        self._renew(state)
        state.search = 0
        state.processed = state.position = state.fetch_offset = at.offset
        state.of_log(at.topic_id)
        state.epochs = []
        state.read(at.offset - 1, at.leader_epoch)

    def unknown(
        self, name: TopicPartition, reset: Reset, error: OffsetOutOfRange | None = None
    ) -> list[Effect]:
        """Forget the position and search for another."""
        state = self._positions[name]
        self._renew(state)
        state.processed = state.position = None
        state.search = next(self._numbers)
        return [FindPosition(name, state.search, reset, error)]

    def searched(self, name: TopicPartition, search: int) -> bool:
        """True while the result of this search is needed."""
        state = self._positions.get(name)
        return state is not None and state.search == search

    def found(self, name: TopicPartition, search: int, at: LogPosition) -> bool:
        """Set the position that was searched for; False if the search is outdated."""
        if not self.searched(name, search):
            return False
        self.seek_to(name, at)
        return True

    def learned(self, topic: str, topic_id: TopicId) -> list[Effect]:
        """The topic has this id now."""
        effects: list[Effect] = []
        for state in self:
            if state.name.topic != topic:
                continue
            before = state.topic_id
            state.of_log(topic_id)
            if not same_topic(before, topic_id):
                effects.append(MadeAnew(state.name, before, topic_id))
                effects += self.unknown(state.name, Reset.EARLIEST)
        return effects

    def pause(self, name: TopicPartition) -> None:
        """Hand out and fetch nothing until `resume`. Fetched records stay, also those of a fetch in
        progress."""
        self._positions[name].paused = True

    def resume(self, name: TopicPartition) -> None:
        self._positions[name].paused = False
        self._positions[name].blocked = False

    def block(self, name: TopicPartition) -> None:
        """Fetch nothing more at this position."""
        state = self._positions[name]
        self._renew(state)
        state.blocked = True

    def _renew(self, state: Position[BatchT]) -> None:
        """Drop buffered records and the fetch in progress."""
        state.incarnation = next(self._numbers)
        self.buffered_bytes -= state.buffered_bytes
        state.buffered_bytes = 0
        state.buffered.clear()
        state.fetch = 0
        state.backing_off = False
        state.blocked = False
        if state.position is not None:
            state.fetch_offset = state.position
            state.epochs = [each for each in state.epochs if each[0] < state.position]

    # --- handing out -------------------------------------------------------------------------

    def buffer(
        self,
        name: TopicPartition,
        batch: BatchT,
        size: int,
        next_offset: int,
        *,
        epoch: int = NO_EPOCH,
    ) -> None:
        """Keep one batch that arrived; `epoch` is that of its records."""
        state = self._positions[name]
        state.read(state.fetch_offset, epoch)
        state.buffered.append(batch)
        state.buffered_bytes += size
        self.buffered_bytes += size
        state.fetch_offset = next_offset
        if not state.backing_off:
            state.attempts = 0

    def take(self, state: Position[BatchT], size: int) -> BatchT:
        """The oldest buffered batch; its partition becomes the last in turn."""
        batch = state.buffered.popleft()
        state.buffered_bytes -= size
        self.buffered_bytes -= size
        self._positions[state.name] = self._positions.pop(state.name)
        return batch

    # --- fetching ----------------------------------------------------------------------------

    def led(self, name: TopicPartition, broker: int, epoch: int) -> bool:
        """Set a partition's leader, or that there is none; True if it changed. The position stays."""
        state = self._positions.get(name)
        if state is None or (state.broker, state.leader_epoch) == (broker, epoch):
            return False
        state.broker, state.leader_epoch = broker, epoch
        state.fetch = 0
        state.backing_off = False
        return True

    def plan(self, broker: int) -> FetchPlan | None:
        """The next fetch for a broker; None if there is nothing to fetch, or no room."""
        share = max(self._partition_bytes, self._buffer_bytes // max(1, len(self._positions)))
        due = [
            state
            for state in self
            if state.broker == broker
            and state.position is not None
            and state.readable
            and not (state.fetch or state.backing_off or state.blocked)
            and state.buffered_bytes < share
        ]
        if not due or not self._room():
            return None
        number = next(self._numbers)
        for state in due:
            state.fetch = number
        wanted = tuple(map(self._wanted, due))
        plan = self._plans[number] = FetchPlan(number, broker, wanted)
        return plan

    def _wanted(self, state: Position[BatchT]) -> FetchPartition:
        offset, epoch, bytes_max = state.fetch_offset, state.leader_epoch, self._partition_bytes
        if not self._names_log:
            return FetchPartition(state.name, offset, epoch, bytes_max, stable=self._stable)
        _, topic_id, last_epoch = state.log.at(offset)
        return FetchPartition(state.name, offset, epoch, bytes_max, topic_id, last_epoch, stable=self._stable)

    def _room(self) -> bool:
        """True if another fetch may be buffered. If there is no room, paused partitions drop their
        records: the others must not wait for their `resume`."""
        for state in self._positions.values():
            if self.buffered_bytes < self._buffer_bytes:
                break
            if state.paused and state.buffered:
                self._renew(state)
        return self.buffered_bytes < self._buffer_bytes

    def answered(self, number: int, answers: Sequence[Fetched]) -> list[Effect]:
        """Handle a broker's answer to a fetch."""
        plan = self._plans.pop(number)
        current = self._concluded(plan)
        effects: list[Effect] = []
        for answer in answers:
            state = current.get(answer.name)
            if state is not None:
                effects += self._answered(state, answer)
        return effects

    def lost(self, broker: int, error: StrandlineError) -> list[Effect]:
        """The stream to a broker broke: its fetches are sent again, to the current leaders."""
        effects: list[Effect] = []
        for plan in [plan for plan in self._plans.values() if plan.broker == broker]:
            del self._plans[plan.number]
            for state in self._concluded(plan).values():
                effects += self._again(state, error)
        return effects

    def backed_off(self, name: TopicPartition, attempt: int) -> None:
        """The pause after failure number `attempt` is over."""
        state = self._positions.get(name)
        if state is not None and state.attempts == attempt:
            state.backing_off = False

    def refuse(self, name: TopicPartition, error: StrandlineError) -> list[Effect]:
        """Records that arrived are unusable, or will not come: report it, and retry after a pause."""
        return [Refused(name, error), *self._back_off(self._positions[name])]

    def _concluded(self, plan: FetchPlan) -> dict[TopicPartition, Position[BatchT]]:
        """The partitions of a plan whose position and leader have not changed since."""
        current = {}
        for wanted in plan.wanted:
            state = self._positions.get(wanted.name)
            if state is not None and state.fetch == plan.number:
                state.fetch = 0
                current[wanted.name] = state
        return current

    def _answered(self, state: Position[BatchT], answer: Fetched) -> list[Effect]:
        error = answer.error
        if answer.diverging is not None:
            return self._cut(state, answer.diverging)
        if error is None:
            state.of_log(state.topic_id or answer.topic_id)
            if self._stable and answer.stable_offset >= 0:
                state.stable_offset = max(answer.stable_offset, state.stable_offset or 0)
            if not answer.records and state.fetch_offset >= answer.high_watermark:
                # All is read. For repeatedly damaged records the number grows, also by way of an answer
                # that had no room for them.
                state.attempts = 0
            if answer.high_watermark >= 0:
                state.high_watermark = max(answer.high_watermark, state.high_watermark or 0)
            if answer.log_start_offset >= 0:
                state.log_start_offset = answer.log_start_offset
            if answer.records:
                return [Arrived(state.name, state.fetch_offset, answer.records, answer.aborted or ())]
            return []
        if isinstance(error, OffsetOutOfRange):
            if state.position is not None and state.position < state.fetch_offset:
                return self._back_off(state)  # asked again until what was fetched has been handed out
            return self.unknown(state.name, Reset.POLICY, error)
        if error.outcome is Outcome.FATAL:
            return self.refuse(state.name, error)
        return self._again(state, error)

    def _cut(self, state: Position[BatchT], end: EpochEnd) -> list[Effect]:
        """The leader's log has lost the record before the fetch offset (KIP-320). What is buffered may be
        lost too: the partition is fetched from its position again, or from where the logs parted if that is
        before it, and the leader compares again (KIP-279).

        They parted where that epoch ends in the log that ends it first. If it ends later in the leader's log,
        and nothing is known of it here, as after a commit of a later epoch, the log is read from its start.
        """
        position = state.position
        if position is None:
            return []
        self._renew(state)
        state.high_watermark = state.stable_offset = None
        later = bisect_right(state.epochs, end.epoch, key=lambda each: each[1])
        own_end = state.epochs[later][0] if later < len(state.epochs) else position
        first = min(end.end_offset, own_end)
        if first >= position:
            return []
        if first < 0 or (later == 0 and own_end < end.end_offset):
            return self.unknown(state.name, Reset.EARLIEST)
        known = [each for each in state.epochs[:later] if each[0] < first]
        self.seek_to(state.name, LogPosition(first, state.topic_id, end.epoch))
        state.epochs = known or state.epochs
        state.committed = None
        return [Cut(state.name, first, position, end.epoch)]

    def _again(self, state: Position[BatchT], error: StrandlineError) -> list[Effect]:
        delay = self._back_off(state)
        if isinstance(error, OffsetNotAvailable | UnknownLeaderEpoch):
            return [*delay, Waits(state.name, state.attempts, error)]
        return [*delay, DoubtLeader(state.name, error)]

    def _back_off(self, state: Position[BatchT]) -> list[Effect]:
        state.attempts += 1
        state.backing_off = True
        return [DelayFetch(state.name, state.attempts)]
