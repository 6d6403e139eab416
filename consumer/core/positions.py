"""Where a consumer stands in each partition, what to fetch next, and what an answer means.

A partition has two positions: `position`, after what was handed out, and `fetch_offset`, after what was
fetched; in between lies what is buffered. Whatever moves a position otherwise (a seek, another assignment)
drops what is buffered, forgets the fetch that is under way, so that its answer counts for nothing, and gives
the partition another *incarnation*, so that nobody goes on reading from the old place. A pause moves nothing:
what was fetched stays, as long as no other partition needs the room.

A third one lies behind them: `processed`, after what the application is done with, or has committed. It is
what is safe to commit without asking the application.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Generic, TypeVar

from strandline.client.fetches import Answer, FetchPlan, Wanted
from strandline.errors import (
    OffsetNotAvailable,
    OffsetOutOfRange,
    Outcome,
    StrandlineError,
    UnknownLeaderEpoch,
)
from strandline.ids import NO_BROKER, NO_EPOCH, TopicPartition

BatchT = TypeVar("BatchT")


class Reset(Enum):
    """Why a position has to be found."""

    POLICY = "as offset_reset says"
    EARLIEST = "where the log starts"
    LATEST = "at the high watermark"


@dataclass(frozen=True, slots=True)
class Arrived:
    """Records of a partition that are wanted, from `offset` on. The driver splits and buffers them."""

    name: TopicPartition
    offset: int
    records: bytes


@dataclass(frozen=True, slots=True)
class FindPosition:
    """The partition has no valid position: call `found`. `error` says why, if one was out of range."""

    name: TopicPartition
    search: int
    reset: Reset
    error: OffsetOutOfRange | None


@dataclass(frozen=True, slots=True)
class DoubtLeader:
    """The broker that was asked does not lead the partition. `error` may name who does."""

    name: TopicPartition
    error: StrandlineError


@dataclass(frozen=True, slots=True)
class BackOff:
    """Fetch the partition again (call `backed_off`) only after a pause."""

    name: TopicPartition
    attempt: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The partition cannot be read; the next poll raises this."""

    name: TopicPartition
    error: StrandlineError


Effect = Arrived | FindPosition | DoubtLeader | BackOff | Refused


@dataclass(slots=True, eq=False)
class Position(Generic[BatchT]):
    """One assigned partition."""

    name: TopicPartition
    incarnation: int
    position: int | None = None
    """Offset of the next record to hand out; None until it is found."""
    handed_out: bool = False
    """True once anything was."""
    processed: int | None = None
    """Never above `position`; both are moved together by what is not handing out."""
    committed: int | None = None
    """What the group is known to have, so that it is not told again."""
    lost: str = ""
    """Why the group took the partition from this consumer; empty unless it did."""
    fetch_offset: int = -1
    search: int = 0
    """Number of the search for a position that is under way; 0: none."""
    paused: bool = False
    blocked: bool = False
    """Not fetched: the next batch cannot be handed out. Until the position moves, or after a pause."""
    held: bool = False
    """Neither fetched nor handed out: not yet told to the application, or on its way to somebody else."""
    high_watermark: int | None = None
    """The highest heard of: a new leader may know less for a moment (CORRECTNESS H1)."""
    log_start_offset: int | None = None
    broker: int = NO_BROKER
    leader_epoch: int = NO_EPOCH
    fetch: int = 0
    """Number of the fetch that is under way; 0: none."""
    backing_off: bool = False
    attempts: int = 0
    buffered: deque[BatchT] = field(default_factory=deque)
    buffered_bytes: int = 0

    @property
    def readable(self) -> bool:
        return not (self.paused or self.held)

    def saved(self, offset: int) -> None:
        """The group has this offset now. Nothing below it is committed again without a request."""
        self.committed = offset
        if self.processed is not None and self.position is not None:
            self.processed = max(self.processed, min(offset, self.position))


class Positions(Generic[BatchT]):
    """All assigned partitions. The order of the dictionary is the order of their turns."""

    def __init__(self, *, partition_bytes: int, buffer_bytes: int) -> None:
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

    # --- what the user does ------------------------------------------------------------------

    def assign(self, names: Iterable[TopicPartition]) -> list[Effect]:
        """Read these partitions and no others. Those assigned already go on where they are."""
        wanted = dict.fromkeys(names)
        self.drop([name for name in self._positions if name not in wanted])
        return self.add(wanted)

    def add(self, names: Iterable[TopicPartition], *, held: bool = False) -> list[Effect]:
        """Read these partitions too, once they are held no longer."""
        effects: list[Effect] = []
        for name in names:
            if name not in self._positions:
                self._positions[name] = Position(name, next(self._numbers), held=held)
                effects += self.unknown(name, Reset.POLICY)
        return effects

    def drop(self, names: Iterable[TopicPartition]) -> None:
        """Read these partitions no more."""
        for name in names:
            self._renew(self._positions[name])
            del self._positions[name]

    def hold(self, names: Iterable[TopicPartition]) -> None:
        """Hand out and fetch nothing of these; what is buffered is not theirs to see any more (G9)."""
        for name in names:
            self._positions[name].held = True
            self._renew(self._positions[name])

    def let_go(self, names: Iterable[TopicPartition]) -> None:
        """The end of `hold`."""
        for name in names:
            self._positions[name].held = False

    def seek(self, name: TopicPartition, offset: int) -> None:
        """Hand out the record at `offset` next."""
        state = self._positions[name]
        self._renew(state)
        state.search = 0
        state.processed = state.position = state.fetch_offset = offset

    def unknown(
        self, name: TopicPartition, reset: Reset, error: OffsetOutOfRange | None = None
    ) -> list[Effect]:
        """Forget the position and have another one found."""
        state = self._positions[name]
        self._renew(state)
        state.processed = state.position = None
        state.search = next(self._numbers)
        return [FindPosition(name, state.search, reset, error)]

    def searched(self, name: TopicPartition, search: int) -> bool:
        """True while the result of this search is wanted."""
        state = self._positions.get(name)
        return state is not None and state.search == search

    def found(self, name: TopicPartition, search: int, offset: int) -> bool:
        """The position that was searched for; False if nobody wants it any more."""
        if not self.searched(name, search):
            return False
        self.seek(name, offset)
        return True

    def pause(self, name: TopicPartition) -> None:
        """Hand out and fetch nothing until `resume`. What was fetched stays; a fetch under way counts."""
        self._positions[name].paused = True

    def resume(self, name: TopicPartition) -> None:
        self._positions[name].paused = False
        self._positions[name].blocked = False

    def block(self, name: TopicPartition) -> None:
        """Fetch nothing more from this position."""
        state = self._positions[name]
        self._renew(state)
        state.blocked = True

    def _renew(self, state: Position[BatchT]) -> None:
        """Drop what is buffered or under way."""
        state.incarnation = next(self._numbers)
        self.buffered_bytes -= state.buffered_bytes
        state.buffered_bytes = 0
        state.buffered.clear()
        state.fetch = 0
        state.backing_off = False
        state.blocked = False
        if state.position is not None:
            state.fetch_offset = state.position

    # --- handing out -------------------------------------------------------------------------

    def buffer(self, name: TopicPartition, batch: BatchT, size: int, next_offset: int) -> None:
        """Keep one batch that arrived."""
        state = self._positions[name]
        state.buffered.append(batch)
        state.buffered_bytes += size
        self.buffered_bytes += size
        state.fetch_offset = next_offset
        if not state.backing_off:
            state.attempts = 0

    def take(self, state: Position[BatchT], size: int) -> BatchT:
        """The oldest buffered batch; its partition goes to the end of the turns."""
        batch = state.buffered.popleft()
        state.buffered_bytes -= size
        self.buffered_bytes -= size
        self._positions[state.name] = self._positions.pop(state.name)
        return batch

    # --- fetching ----------------------------------------------------------------------------

    def led(self, name: TopicPartition, broker: int, epoch: int) -> bool:
        """A partition's leader is known, or known to be none; True if that is news. The position stays."""
        state = self._positions.get(name)
        if state is None or (state.broker, state.leader_epoch) == (broker, epoch):
            return False
        state.broker, state.leader_epoch = broker, epoch
        state.fetch = 0
        state.backing_off = False
        return True

    def plan(self, broker: int) -> FetchPlan | None:
        """The next fetch from a broker; None while there is nothing to ask it for, or no room."""
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
        wanted = tuple(Wanted(state.name, state.fetch_offset, state.leader_epoch) for state in due)
        plan = self._plans[number] = FetchPlan(number, broker, wanted)
        return plan

    def _room(self) -> bool:
        """True if another fetch may be buffered. If there is no room, paused partitions give up what they
        keep: the others must not wait for their `resume`."""
        for state in self._positions.values():
            if self.buffered_bytes < self._buffer_bytes:
                break
            if state.paused and state.buffered:
                self._renew(state)
        return self.buffered_bytes < self._buffer_bytes

    def answered(self, number: int, answers: Sequence[Answer]) -> list[Effect]:
        """A broker answered a fetch."""
        plan = self._plans.pop(number)
        current = self._concluded(plan)
        effects: list[Effect] = []
        for answer in answers:
            state = current.get(answer.name)
            if state is not None:
                effects += self._answered(state, answer)
        return effects

    def lost(self, broker: int, error: StrandlineError) -> list[Effect]:
        """The stream to a broker broke: what was asked of it is asked again, of whoever leads then."""
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
        """What arrived cannot be used, or will not come: say so, and try again after a pause."""
        return [Refused(name, error), *self._back_off(self._positions[name])]

    def _concluded(self, plan: FetchPlan) -> dict[TopicPartition, Position[BatchT]]:
        """The partitions of a plan that have neither moved nor another leader since."""
        current = {}
        for wanted in plan.wanted:
            state = self._positions.get(wanted.name)
            if state is not None and state.fetch == plan.number:
                state.fetch = 0
                current[wanted.name] = state
        return current

    def _answered(self, state: Position[BatchT], answer: Answer) -> list[Effect]:
        error = answer.error
        if error is None:
            if not answer.records:
                state.attempts = 0  # of records that come damaged again and again it grows
            if answer.high_watermark >= 0:
                state.high_watermark = max(answer.high_watermark, state.high_watermark or 0)
            if answer.log_start_offset >= 0:
                state.log_start_offset = answer.log_start_offset
            if answer.records:
                return [Arrived(state.name, state.fetch_offset, answer.records)]
            return []
        if isinstance(error, OffsetOutOfRange):
            if state.buffered:
                return []  # found out again once what is buffered has been handed out
            return self.unknown(state.name, Reset.POLICY, error)
        if error.outcome is Outcome.FATAL:
            return self.refuse(state.name, error)
        return self._again(state, error)

    def _again(self, state: Position[BatchT], error: StrandlineError) -> list[Effect]:
        effects = self._back_off(state)
        if not isinstance(error, OffsetNotAvailable | UnknownLeaderEpoch):
            effects.append(DoubtLeader(state.name, error))
        return effects

    def _back_off(self, state: Position[BatchT]) -> list[Effect]:
        state.attempts += 1
        state.backing_off = True
        return [BackOff(state.name, state.attempts)]
