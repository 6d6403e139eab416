"""Commits offsets, as who may commit them.

A commit is sent for partitions that were assigned without a break since it was asked for, as the member
and in the generation of that very moment, so that none of an older generation ever goes out (CORRECTNESS
G1, G4). Of two commits of one partition the later one stands, whichever had to be tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from strandline.client.coordinator import Coordinator, no_answer
from strandline.client.retry import Tries
from strandline.client.wire.groups import OFFSET_COMMIT
from strandline.config import ConsumerSettings
from strandline.consumer import arguments
from strandline.consumer.core.positions import Position
from strandline.consumer.delivery import HandOut
from strandline.consumer.reader import Reader
from strandline.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    InvalidRequest,
    RebalanceInProgress,
    StrandlineError,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.groups import (
    NO_GENERATION,
    NO_MEMBER,
    CommittedOffset,
    FetchedOffsets,
    OffsetCommit,
)

logger = logging.getLogger(__name__)

OffsetLike = int | tuple[int, str] | CommittedOffset
"""An offset, with metadata where there is any, as users give it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who commits: a member in a generation, or somebody outside the group."""

    member: str = NO_MEMBER
    generation: int = NO_GENERATION


class Commits:
    """`identity` tells who this consumer is now, or raises RebalanceInProgress; `on_refused` hears what a
    commit was refused with, and says if that may be outdated; `in_listener` tells if the listener asks."""

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        reader: Reader,
        handout: HandOut,
        identity: Callable[[], Identity],
        on_refused: Callable[[Identity, StrandlineError], bool],
        in_listener: Callable[[], bool],
        settings: ConsumerSettings,
        clock: Clock,
    ) -> None:
        self._group = coordinator.group
        self._coordinator = coordinator
        self._reader = reader
        self._handout = handout
        self._identity = identity
        self._on_refused = on_refused
        self._in_listener = in_listener
        self._settings = settings
        self._clock = clock
        self._numbers = count(1)
        self._newest: dict[TopicPartition, int] = {}
        """The number of the application's last commit of each partition that succeeded."""
        self._newest_own: dict[TopicPartition, tuple[int, int]] = {}
        """The number of the last one that the consumer made of itself, and its offset."""
        self._sending = asyncio.Lock()
        self._by_hand: dict[asyncio.Event, frozenset[TopicPartition]] = {}
        """The application's commits that are under way: the end of each, and its partitions."""
        self.lost: dict[TopicPartition, Position[Any]] = {}
        """Partitions that the group took from this consumer since the last get call: what the application
        still has of them is not its to commit, even if it owns them again by now."""

    async def commit(self, offsets: Mapping[TopicPartition, OffsetLike] | None) -> None:
        """Commits these offsets for the application, or all that was handed out.

        Commits what can be committed, then raises UnknownMemberId, or what made the consumer fail, for
        partitions that were lost, and InvalidRequest for others that are not assigned.
        """
        at_work = self._at_work() if offsets is None else set()
        wanted = self._of_all(at_work) if offsets is None else self._named(offsets)
        ended = asyncio.Event()
        self._by_hand[ended] = frozenset(state.name for state in wanted)
        try:
            gone = await self._send(wanted, self._settings.api_timeout_ms / 1000)
            if at_work:
                await self.commit_processed(at_work, timeout_s=self._settings.api_timeout_ms / 1000)
        finally:
            del self._by_hand[ended]
            ended.set()
        if offsets is None:
            gone = [s for s in (*gone, *self.lost.values()) if s.handed_out and s.position != s.committed]
        self._raise_gone(gone)

    async def commit_processed(
        self, names: Iterable[TopicPartition] | None = None, *, timeout_s: float
    ) -> None:
        """Commits what is processed and not committed yet, of these partitions or of all. Raises what refused
        the commit; partitions that are not assigned any more are no error."""
        chosen = None if names is None else set(names)
        states = [s for s in self._reader.positions if chosen is None or s.name in chosen]
        _ = await self._send(_processed(states), timeout_s, of_itself=True)

    async def commit_finally(self, names: Iterable[TopicPartition], *, timeout_s: float) -> None:
        """Before these are given up: waits for the application's own commits of them that are under way, then
        commits with `enable_auto_commit` what is processed. Raises as `commit_processed`."""
        wanted = frozenset(names)
        deadline = self._clock.monotonic() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                for ended in [end for end, theirs in self._by_hand.items() if theirs & wanted]:
                    await ended.wait()
        except TimeoutError:
            logger.info("%d partitions are given up before a commit of them was answered", len(wanted))
        if self._settings.enable_auto_commit:
            await self.commit_processed(wanted, timeout_s=deadline - self._clock.monotonic())

    async def commit_again(self, stored: FetchedOffsets) -> None:
        """Have the group count the retention of these offsets from now on, if nobody has members in it.

        `stored` is what it has. What differs from what this consumer committed, or is gone, is another
        client's decision, and stays as it is. Raises the first error that there is.
        """
        timeout_s = self._settings.request_timeout_ms / 1000
        try:
            async with asyncio.timeout(timeout_s), self._sending:
                identity = self._identity()
                if identity.member == NO_MEMBER:
                    left = {
                        state: entry
                        for name, entry in stored.items()
                        if entry is not None
                        and (state := self._reader.positions.find(name)) is not None
                        and state.committed == entry.offset
                    }
                    if left:
                        await self._try(left, identity, next(self._numbers), of_itself=True)
        except TimeoutError:
            raise no_answer(self._group, timeout_s) from None

    def note_lost(self, names: Iterable[TopicPartition], reason: str) -> None:
        """The application cannot commit what it has of these any more."""
        for name in names:
            state = self._reader.positions.find(name)
            if state is not None:
                state.lost = reason
                self.lost[name] = state

    def _raise_gone(self, gone: Sequence[Position[Any]]) -> None:
        """Raises if there are any: they are not assigned any more, or not since the record was handed out."""
        lost = sorted({state.name: state.lost for state in gone if state.lost}.items())
        if lost:
            names = ", ".join(str(name) for name, _ in lost)
            raise self._handout.failure or UnknownMemberId(
                f"the group went on without this consumer ({lost[0][1]}): what was handed out of {names} is "
                f"not committed, and others read it again"
            )
        if gone:
            names = ", ".join(sorted(str(state.name) for state in gone))
            raise InvalidRequest(f"not assigned to this consumer any more: {names}")

    def _at_work(self) -> set[TopicPartition]:
        """Within a listener: partitions that the application still works on. The listener runs beside it, and
        speaks only for what is processed of these."""
        return self._handout.in_hand(self._names()) if self._in_listener() else set()

    def _of_all(self, without: Collection[TopicPartition]) -> dict[Position[Any], CommittedOffset]:
        states = [state for state in self._reader.positions if state.name not in without]
        return {s: CommittedOffset(s.position) for s in states if s.position is not None}

    def _names(self) -> set[TopicPartition]:
        return {state.name for state in self._reader.positions}

    def _named(self, offsets: Mapping[TopicPartition, OffsetLike]) -> dict[Position[Any], CommittedOffset]:
        given = arguments.commits(offsets)
        assigned = self._names()
        # Of a partition that was lost and is owned again, the application may mean what it had before; not so
        # a listener, which has heard of both, nor an application that was handed out something since.
        known = assigned if self._in_listener() else {s.name for s in self._reader.positions if s.handed_out}
        self._raise_gone([self.lost[name] for name in given if name in self.lost and name not in known])
        strangers = sorted(str(name) for name in given if name not in assigned)
        if strangers:
            raise InvalidRequest(f"not assigned to this consumer: {', '.join(strangers)}")
        return {self._reader.positions[name]: entry for name, entry in given.items()}

    async def _send(
        self, wanted: Mapping[Position[Any], CommittedOffset], timeout_s: float, *, of_itself: bool = False
    ) -> list[Position[Any]]:
        """Commit, and try again for a while what may yet succeed. Returns those that were not assigned any
        more when their turn came, and so are not committed.

        Of what the consumer commits of itself that is what is processed when its turn comes: by a commit that
        it waited for, more may be.
        """
        number = next(self._numbers)
        left = dict(wanted)
        gone: list[Position[Any]] = []
        deadline = self._clock.monotonic() + timeout_s
        tries = Tries(self._settings, self._clock, timeout_s)
        last: StrandlineError | None = None
        while left:
            identity: Identity | None = None
            try:
                async with asyncio.timeout(deadline - self._clock.monotonic()), self._sending:
                    left = {s: e for s, e in left.items() if not self._superseded(s.name, e.offset, number)}
                    gone += [state for state in left if not self._holds(state)]
                    left = {s: e for s, e in left.items() if self._holds(s)}
                    if of_itself:
                        left = _processed(left)
                    if left:
                        identity = self._identity()
                        await self._try(left, identity, number, of_itself=of_itself)
            except StrandlineError as error:
                last = error
                # Refused as a member that it has ceased to be, or is about to: not its last word.
                outdated = identity is not None and self._outdated(identity, error)
                final = isinstance(error, UnknownTopicOrPartition)  # the coordinator has looked before
                if final or not (outdated or error.retriable) or tries.over:
                    raise
                if any(map(self._holds, left)):
                    await tries.pause()
            except TimeoutError:
                raise last or no_answer(self._group, timeout_s) from None
        return gone

    def _superseded(self, name: TopicPartition, offset: int, number: int) -> bool:
        """True if a commit that was asked for later has succeeded. Of those that the consumer makes of itself
        only one that is as far counts: it may not have known of this one."""
        own, reached = self._newest_own.get(name, (0, 0))
        return self._newest.get(name, 0) > number or (own > number and reached >= offset)

    def _holds(self, state: Position[Any]) -> bool:
        """True if the partition has been assigned without a break."""
        return self._reader.positions.find(state.name) is state

    def _outdated(self, identity: Identity, error: StrandlineError) -> bool:
        """True if the consumer commits as somebody else by now, or is about to."""
        if self._on_refused(identity, error):
            return True
        if isinstance(error, FencedInstanceId):
            return False
        try:
            return identity != self._identity()
        except RebalanceInProgress:
            return True

    async def _try(
        self,
        left: dict[Position[Any], CommittedOffset],
        identity: Identity,
        number: int,
        *,
        of_itself: bool,
    ) -> None:
        """One commit; takes out of `left` what succeeded, and of what the consumer commits of itself also
        what was deleted. Raises the first error there is."""
        request = OffsetCommit(
            self._group,
            identity.member,
            identity.generation,
            {state.name: entry for state, entry in left.items()},
            None if identity.member == NO_MEMBER else self._settings.group_instance_id,
        )
        results = await self._coordinator.call(OFFSET_COMMIT, request)
        errors: list[StrandlineError] = []
        for state, entry in list(left.items()):
            unsaid = CoordinatorNotAvailable(f"the coordinator said nothing about {state.name}")
            error = results.get(state.name, unsaid)
            if error is None:
                state.saved(entry.offset)
                if of_itself:
                    self._newest_own[state.name] = number, entry.offset
                else:
                    self._newest[state.name] = number
                del left[state]
            elif of_itself and isinstance(error, UnknownTopicOrPartition):
                del left[state]
            else:
                errors.append(error)
        if errors:
            raise errors[0]


def _processed(states: Iterable[Position[Any]]) -> dict[Position[Any], CommittedOffset]:
    """What of these is processed and not committed yet."""
    return {s: CommittedOffset(s.processed) for s in states if s.processed not in (None, s.committed)}
