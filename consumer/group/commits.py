"""Commits offsets, as who may commit them.

A commit is sent for partitions that were assigned without a break since it was asked for, as the member
and in the generation of that very moment, so that none of an older generation ever goes out (CORRECTNESS
G1, G4). Of two commits of one partition the later one stands, whichever had to be tried again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from consumer import arguments
from consumer.core.positions import Position
from consumer.group.coordinator import Coordinator, no_answer
from consumer.handout import HandOut
from consumer.reader import Reader
from strandline.client.backoff import backoff_s
from strandline.client.group_wire import OFFSET_COMMIT
from strandline.config import ConsumerSettings
from strandline.errors import (
    CoordinatorNotAvailable,
    InvalidRequest,
    RebalanceInProgress,
    StrandlineError,
    UnknownMemberId,
)
from strandline.groups import (
    NO_GENERATION,
    NO_MEMBER,
    CommittedOffset,
    FetchedOffsets,
    OffsetCommit,
)
from strandline.ids import TopicPartition
from strandline.ports import Clock

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
    commit was refused with, and says if that may be outdated."""

    def __init__(
        self,
        coordinator: Coordinator,
        *,
        reader: Reader,
        handout: HandOut,
        identity: Callable[[], Identity],
        on_refused: Callable[[Identity, StrandlineError], bool],
        settings: ConsumerSettings,
        clock: Clock,
    ) -> None:
        self._group = coordinator.group
        self._coordinator = coordinator
        self._reader = reader
        self._handout = handout
        self._identity = identity
        self._on_refused = on_refused
        self._settings = settings
        self._clock = clock
        self._numbers = count(1)
        self._newest: dict[TopicPartition, int] = {}
        """The number of the last commit of each partition that succeeded."""
        self._sending = asyncio.Lock()
        self.lost: dict[TopicPartition, str] = {}
        """Partitions lost with records handed out and not committed, and why; until the application goes on
        with other records."""

    async def commit(self, offsets: Mapping[TopicPartition, OffsetLike] | None) -> None:
        """What the application asks for: these offsets, or all that was handed out.

        Raises InvalidRequest that names partitions that are not assigned, or what refused the commit; for
        all that was handed out UnknownMemberId, or what made the consumer fail, if some of that was lost.
        """
        if offsets is None and self.lost:
            raise self._handout.failure or self._too_late()
        wanted = self._handed_out() if offsets is None else self._named(offsets)
        await self._send(wanted, self._settings.api_timeout_ms / 1000)
        self.lost.clear()
        # Not before: a partition that is given up waits for this commit then.
        self._handout.done_up_to({state: entry.offset for state, entry in wanted.items()})

    async def commit_processed(
        self, names: Iterable[TopicPartition] | None = None, *, timeout_s: float
    ) -> None:
        """What is processed and not committed yet, of these partitions or of all. Raises as `commit`."""
        chosen = None if names is None else set(names)
        states = [s for s in self._reader.positions if chosen is None or s.name in chosen]
        await self._send(_processed(states), timeout_s, of_itself=True)

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
                        await self._try(left, identity, next(self._numbers))
        except TimeoutError:
            raise no_answer(self._group, timeout_s) from None

    def note_lost(self, names: Iterable[TopicPartition], reason: str) -> None:
        """These are this consumer's no longer, whatever of them was to be committed."""
        for name in names:
            state = self._reader.positions.find(name)
            if state is not None and state.handed_out and state.position != state.committed:
                self.lost[name] = reason

    def _too_late(self) -> UnknownMemberId:
        names = ", ".join(map(str, sorted(self.lost)))
        reason = next(iter(self.lost.values()))
        return UnknownMemberId(
            f"the group went on without this consumer ({reason}): what was handed out of {names} is not "
            f"committed, and others read it again"
        )

    def _handed_out(self) -> dict[Position[Any], CommittedOffset]:
        positions = self._reader.positions
        return {s: CommittedOffset(s.position) for s in positions if s.position is not None}

    def _named(self, offsets: Mapping[TopicPartition, OffsetLike]) -> dict[Position[Any], CommittedOffset]:
        given = arguments.commits(offsets)
        strangers = sorted(str(name) for name in given if self._reader.positions.find(name) is None)
        if strangers:
            raise InvalidRequest(f"not assigned to this consumer: {', '.join(strangers)}")
        return {self._reader.positions[name]: entry for name, entry in given.items()}

    async def _send(
        self, wanted: Mapping[Position[Any], CommittedOffset], timeout_s: float, *, of_itself: bool = False
    ) -> None:
        """Commit, and try again for a while what may yet succeed.

        Partitions that are not assigned any more are an error. Not so of what the consumer commits of itself:
        nothing of them is its to commit. Of the others that is what is processed when its turn comes: by a
        commit that it waited for, more may be.
        """
        number = next(self._numbers)
        left = dict(wanted)
        deadline = self._clock.monotonic() + timeout_s
        last: StrandlineError | None = None
        attempt = 0
        identity = Identity()
        while left:
            try:
                async with asyncio.timeout(deadline - self._clock.monotonic()), self._sending:
                    left = {s: e for s, e in left.items() if self._newest.get(s.name, 0) < number}
                    gone = [s for s in left if self._reader.positions.find(s.name) is not s]
                    if gone and not of_itself:
                        names = ", ".join(sorted(str(state.name) for state in gone))
                        raise InvalidRequest(f"not assigned to this consumer any more: {names}")
                    if of_itself:
                        left = _processed(left.keys() - gone)
                    identity = self._identity()
                    await self._try(left, identity, number)
            except StrandlineError as error:
                last = error
                attempt += 1
                # Refused as a member that it has ceased to be, or is about to: not its last word.
                again = self._on_refused(identity, error) or error.retriable or self._moved_on(identity)
                if not again or self._clock.monotonic() >= deadline:
                    raise
                await self._clock.sleep(backoff_s(self._settings, attempt))
            except TimeoutError:
                raise last or no_answer(self._group, timeout_s) from None

    def _moved_on(self, identity: Identity) -> bool:
        try:
            return identity != self._identity()
        except RebalanceInProgress:
            return True

    async def _try(self, left: dict[Position[Any], CommittedOffset], identity: Identity, number: int) -> None:
        """One commit; takes out of `left` what succeeded. Raises the first error there is."""
        if not left:
            return
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
                state.committed = entry.offset
                self._newest[state.name] = number
                del left[state]
            else:
                errors.append(error)
        if errors:
            raise errors[0]


def _processed(states: Iterable[Position[Any]]) -> dict[Position[Any], CommittedOffset]:
    """What of these is processed and not committed yet."""
    return {s: CommittedOffset(s.processed) for s in states if s.processed not in (None, s.committed)}
