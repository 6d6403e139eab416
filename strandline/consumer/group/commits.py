"""Commits offsets under the identity that the consumer has when it sends them.

A commit covers only partitions that have stayed assigned since it was requested. It is sent with the member
id and generation of that moment, so that no commit of an older generation goes out (CORRECTNESS G1, G4). If
two commits of a partition overlap, the one requested later wins, whichever had to be retried.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

from strandline.adapters.codecs.groups import OFFSET_COMMIT
from strandline.client import arguments
from strandline.client.coordinator import Coordinator, no_answer
from strandline.client.core.positions import Position
from strandline.client.reading.partition_reader import PartitionReader
from strandline.client.retry import Tries
from strandline.client.waits import Notice
from strandline.config.consumer import ConsumerSettings
from strandline.consumer.delivery import RecordDelivery
from strandline.errors import (
    CoordinatorNotAvailable,
    FencedInstanceId,
    InvalidRequest,
    RebalanceInProgress,
    StrandlineError,
    UnknownMemberId,
    UnknownTopicId,
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
    OffsetLike,
)
from strandline.vocabulary.log_position import same_topic

logger = logging.getLogger(__name__)

GONE: Final = (UnknownTopicOrPartition, UnknownTopicId)
"""The partition does not exist, or its topic is another one by now: no later try helps."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The committer: a member in a generation, or, by default, a client outside the group."""

    member: str = NO_MEMBER
    generation: int = NO_GENERATION


class Commits:
    """Sends the commits of the application, and the automatic ones.

    `identity` returns this consumer's identity, or raises RebalanceInProgress. `on_refused` gets the error of
    a refused commit, and returns True if the error may be outdated. `in_listener` is True within a listener.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        reader: PartitionReader,
        delivery: RecordDelivery,
        identity: Callable[[], Identity],
        on_refused: Callable[[Identity, StrandlineError], bool],
        in_listener: Callable[[], bool],
        settings: ConsumerSettings,
        clock: Clock,
    ) -> None:
        self._group = coordinator.name
        self._coordinator = coordinator
        self._reader = reader
        self._delivery = delivery
        self._identity = identity
        self._on_refused = on_refused
        self._in_listener = in_listener
        self._settings = settings
        self._clock = clock
        self._numbers = count(1)
        self._newest: dict[TopicPartition, int] = {}
        """The number of the application's last successful commit of each partition."""
        self._newest_automatic: dict[TopicPartition, tuple[int, int]] = {}
        """The number and offset of the last successful automatic commit of each partition."""
        self._failing = Notice(clock)
        """Of commits that fail until one has succeeded."""
        self._sending = asyncio.Lock()
        self._manual: dict[asyncio.Event, frozenset[TopicPartition]] = {}
        """The application's commits in progress: the event of each commit's end, and its partitions."""
        self.lost: dict[TopicPartition, Position[Any]] = {}
        """Partitions that were lost since the last get call. The application must not commit the records that
        it still has of them, even if they are assigned again by now."""

    async def commit(self, offsets: Mapping[TopicPartition, OffsetLike] | None) -> None:
        """Commits these offsets for the application, or all delivered ones.

        Commits as much as possible first. Then raises UnknownMemberId, or the error that made the consumer
        fail, for partitions that were lost, and InvalidRequest for others that are not assigned.
        """
        at_work = self._at_work() if offsets is None else []
        wanted = self._all_but(at_work) if offsets is None else self._named(offsets)
        ended = asyncio.Event()
        self._manual[ended] = frozenset(state.name for state in wanted)
        try:
            gone = await self._send(wanted, self._settings.api_timeout_ms / 1000)
            if at_work:
                await self.commit_processed(at_work, timeout_s=self._settings.api_timeout_ms / 1000)
        finally:
            del self._manual[ended]
            ended.set()
        if offsets is None:
            gone = [s for s in (*gone, *self.lost.values()) if s.handed_out and s.position != s.committed]
        self._raise_gone(gone)

    async def commit_processed(
        self, names: Iterable[TopicPartition] | None = None, *, timeout_s: float
    ) -> None:
        """Commits what is processed and not committed yet, of these partitions or of all.

        Raises the error of a refused commit. Partitions that are no longer assigned are no error.
        """
        chosen = None if names is None else set(names)
        states = [s for s in self._reader.positions if chosen is None or s.name in chosen]
        _ = await self._send(_processed(states), timeout_s, automatic=True)

    async def commit_finally(self, names: Iterable[TopicPartition], *, timeout_s: float) -> None:
        """Commits before these partitions are released.

        Waits for the application's commits of them that are in progress. Then commits, with
        `enable_auto_commit`, what is processed. Raises as `commit_processed`.
        """
        wanted = frozenset(names)
        deadline = self._clock.monotonic() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                for ended in [end for end, theirs in self._manual.items() if theirs & wanted]:
                    await ended.wait()
        except TimeoutError:
            logger.info("%d partitions are given up before a commit of them was answered", len(wanted))
        if self._settings.enable_auto_commit:
            await self.commit_processed(wanted, timeout_s=deadline - self._clock.monotonic())

    async def commit_again(self, stored: FetchedOffsets) -> None:
        """Commit unchanged offsets again, so that their retention starts anew, if the group has no members.

        `stored` are the group's offsets. One that differs from this consumer's last commit, or is missing, is
        another client's decision, and stays as it is. Raises the first error.
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
                        await self._try(left, identity, next(self._numbers), automatic=True)
        except TimeoutError:
            raise no_answer("group", self._group, timeout_s) from None

    def note_lost(self, names: Iterable[TopicPartition], reason: str) -> None:
        """The application may no longer commit the records that it has of these partitions."""
        for name in names:
            state = self._reader.positions.find(name)
            if state is not None:
                state.lost = reason
                self.lost[name] = state

    def _raise_gone(self, gone: Sequence[Position[Any]]) -> None:
        """Raises if there are any: they are no longer assigned, or not since the record was delivered."""
        lost = sorted({state.name: state.lost for state in gone if state.lost}.items())
        if lost:
            names = ", ".join(str(name) for name, _ in lost)
            raise self._delivery.failure or UnknownMemberId(
                f"the group went on without this consumer ({lost[0][1]}): what was handed out of {names} is "
                f"not committed, and others read it again"
            )
        if gone:
            names = ", ".join(sorted(str(state.name) for state in gone))
            raise InvalidRequest(f"not assigned to this consumer any more: {names}")

    def _at_work(self) -> list[TopicPartition]:
        """Within a listener: partitions with records in hand. The listener runs beside the application, so it
        commits only what is processed of these."""
        return self._delivery.in_hand(self._names()) if self._in_listener() else []

    def _all_but(self, without: Collection[TopicPartition]) -> dict[Position[Any], CommittedOffset]:
        states = [state for state in self._reader.positions if state.name not in without]
        return {s: _of(s, s.position) for s in states if s.position is not None}

    def _names(self) -> set[TopicPartition]:
        return {state.name for state in self._reader.positions}

    def _named(self, offsets: Mapping[TopicPartition, OffsetLike]) -> dict[Position[Any], CommittedOffset]:
        given = arguments.commits(offsets)
        assigned = self._names()
        # If a partition was lost and is assigned again, the application may mean records from before, unless
        # it got records since. A listener was called for both changes, so it means the new assignment.
        known = assigned if self._in_listener() else {s.name for s in self._reader.positions if s.handed_out}
        self._raise_gone([self.lost[name] for name in given if name in self.lost and name not in known])
        unassigned = sorted(str(name) for name in given if name not in assigned)
        if unassigned:
            raise InvalidRequest(f"not assigned to this consumer: {', '.join(unassigned)}")
        states = {name: self._reader.positions[name] for name in given}
        return {states[name]: _named(states[name], entry) for name, entry in given.items()}

    async def _send(
        self, wanted: Mapping[Position[Any], CommittedOffset], timeout_s: float, *, automatic: bool = False
    ) -> list[Position[Any]]:
        """Commit, with retries until the timeout. Returns the partitions that were no longer assigned when it
        was their turn: they are not committed.

        An automatic commit takes the offsets that are processed at its turn: a commit before it may have
        changed them.
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
                    gone += [state for state in left if not self._still_assigned(state)]
                    left = {s: e for s, e in left.items() if self._still_assigned(s)}
                    if automatic:
                        left = _processed(left)
                    if left:
                        identity = self._identity()
                        await self._try(left, identity, number, automatic=automatic)
            except StrandlineError as error:
                last = error
                # An error for an identity that has changed, or is about to, does not count.
                outdated = identity is not None and self._outdated(identity, error)
                final = isinstance(error, GONE)  # the coordinator has looked before
                if final or not (outdated or error.retriable) or tries.over:
                    raise
                if any(map(self._still_assigned, left)):
                    if not isinstance(error, RebalanceInProgress):
                        self._failing.log(f"group {self._group}: offsets are not committed", error)
                    await tries.pause()
            except TimeoutError:
                raise last or no_answer("group", self._group, timeout_s) from None
        return gone

    def _superseded(self, name: TopicPartition, offset: int, number: int) -> bool:
        """True if a later commit has succeeded. A later automatic commit counts only if it is as far: it may
        have been made without this one's offset."""
        own, reached = self._newest_automatic.get(name, (0, 0))
        return self._newest.get(name, 0) > number or (own > number and reached >= offset)

    def _still_assigned(self, state: Position[Any]) -> bool:
        """True if the partition has stayed assigned."""
        return self._reader.positions.find(state.name) is state

    def _outdated(self, identity: Identity, error: StrandlineError) -> bool:
        """True if the consumer's identity has changed, or is about to."""
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
        automatic: bool,
    ) -> None:
        """Send one commit, and remove from `left` what succeeded. An automatic commit also removes partitions
        that were deleted. Raises the first error."""
        request = OffsetCommit(
            self._group,
            identity.member,
            identity.generation,
            {state.name: entry for state, entry in left.items()},
            None if identity.member == NO_MEMBER else self._settings.group_instance_id,
        )
        began = self._clock.monotonic()
        results = await self._coordinator.call(OFFSET_COMMIT, request)
        self._delivery.measures.committed_ms.add((self._clock.monotonic() - began) * 1000)
        errors: list[StrandlineError] = []
        for state, entry in list(left.items()):
            missing = CoordinatorNotAvailable(f"the coordinator said nothing about {state.name}")
            error = results.get(state.name, missing)
            if error is None:
                state.saved(entry.offset)
                if automatic:
                    self._newest_automatic[state.name] = number, entry.offset
                else:
                    self._newest[state.name] = number
                del left[state]
            elif automatic and isinstance(error, GONE):
                del left[state]
            else:
                errors.append(error)
        if errors:
            raise errors[0]
        self._failing.over()


def _processed(states: Iterable[Position[Any]]) -> dict[Position[Any], CommittedOffset]:
    """The processed offsets that are not committed yet."""
    return {s: _of(s, s.processed) for s in states if s.processed is not None and s.processed != s.committed}


def _of(state: Position[Any], offset: int) -> CommittedOffset:
    """A commit of the log that is read."""
    return CommittedOffset.of(state.log.at(offset))


def _named(state: Position[Any], given: CommittedOffset) -> CommittedOffset:
    """A commit of an offset that the application names. Raises UnknownTopicId for one that it has read of an
    earlier incarnation of the topic."""
    of_earlier = state.anew and given.offset > (state.position or 0)
    if of_earlier or not same_topic(given.topic_id, state.topic_id):
        raise UnknownTopicId(
            f"{state.name} was made anew, with topic id {state.topic_id}, and its records up to offset "
            f"{given.offset} were not handed out: commit what was read of this one"
        )
    own = _of(state, given.offset)
    return replace(given, leader_epoch=own.leader_epoch, topic_id=own.topic_id)
