"""Takes partitions over and gives them up: what a member's decisions do to what is read.

What has to happen at once, that nothing more of a partition is handed out, happens in `foresee`; the rest
in its turn, listener after listener.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable

from strandline.config import ConsumerSettings
from strandline.consumer.core.member_effects import Assign, Lose, Revoke
from strandline.consumer.delivery import HandOut
from strandline.consumer.group.commits import Commits
from strandline.consumer.group.listener import Listening
from strandline.consumer.reader import Reader
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition

logger = logging.getLogger(__name__)


class Handover:
    """`owned` tells what the member owns by now."""

    def __init__(
        self,
        *,
        reader: Reader,
        handout: HandOut,
        commits: Commits,
        listening: Listening,
        settings: ConsumerSettings,
        owned: Callable[[], frozenset[TopicPartition]],
    ) -> None:
        self._reader = reader
        self._handout = handout
        self._commits = commits
        self._listening = listening
        self._settings = settings
        self._owned = owned
        self._told: set[TopicPartition] = set()
        """Partitions that the listener knows to be this consumer's."""
        self._going: Counter[TopicPartition] = Counter()
        """Partitions that were decided to be given up, and wait for their turn."""
        self._cut: asyncio.Timeout | None = None
        """Ends the drain and the commit that are under way."""
        self.holding = False
        """True while what comes is about to be given up like everything else."""
        self._drain_s = settings.max_poll_interval_ms / 1000
        self.commit_s = min(settings.request_timeout_ms, settings.max_poll_interval_ms / 2) / 1000
        """How long to try to commit before a release."""

    def foresee(self, effect: Assign | Revoke | Lose) -> None:
        """Stop handing out, now, what is going to be given up."""
        if isinstance(effect, Assign):
            return
        self._going.update(effect.partitions)
        if isinstance(effect, Revoke):
            self._reader.hold(effect.partitions)
        else:
            self._commits.note_lost(effect.partitions, effect.reason)
            self._drop(effect.partitions)
            self._handout.interrupt()
            if self._cut is not None:
                self._cut.reschedule(0)

    def hold_all(self) -> None:
        """Hand out nothing more, of what comes yet neither: everything is about to be given up."""
        self.holding = True
        self._reader.hold([state.name for state in self._reader.positions])

    async def commit_early(self) -> None:
        """What is processed by now, of everything. The release commits the rest, or this again."""
        if not self._settings.enable_auto_commit:
            return
        try:
            await self._commits.commit_processed(timeout_s=self.commit_s)
        except StrandlineError as error:
            logger.info("offsets are not committed before a rebalance has ended: %s", error)

    async def assign(self, effect: Assign) -> None:
        """Find positions, tell the listener, and only then fetch."""
        owned = self._owned()
        added = [name for name in effect.added if name in owned]
        if effect.added and not added:
            return  # lost again before anybody was told
        self._reader.add(added, held=True)
        self._told.update(added)
        await self._listening.assigned(added)
        if not self.holding:
            self._reader.let_go(name for name in added if not self._going[name])

    async def revoke(self, effect: Revoke) -> bool:
        """Drain, commit, tell the listener, release. False if they were lost meanwhile."""
        names = effect.partitions
        self._going.subtract(names)
        if not self._assigned(names):
            return False
        try:
            async with asyncio.timeout(None) as self._cut:
                await self._drain(names)
                await self._commit(names)
        except TimeoutError:
            return False
        finally:
            self._cut = None
        if not self._assigned(names):
            return False
        self._told.difference_update(names)
        await self._listening.revoked(names)
        self._commits.note_lost(self._handout.in_hand(names), "they were given up with records in hand")
        self._drop(names)
        return True

    async def lose(self, effect: Lose) -> None:
        """LogLine the listener; everything else was done at once."""
        self._going.subtract(effect.partitions)
        lost = self._told.intersection(effect.partitions)
        self._told -= lost
        if lost:
            await self._listening.lost(lost)

    async def _drain(self, names: Iterable[TopicPartition]) -> None:
        if not await self._handout.drained(set(names), self._drain_s):
            logger.warning(
                "%d partitions are given up with records in hand: others will read those again",
                len(self._handout.in_hand(set(names))),
            )

    async def _commit(self, names: Iterable[TopicPartition]) -> None:
        """What cannot be committed is read again by others; it must not keep them waiting (G6, G7)."""
        try:
            await self._commits.commit_finally(names, timeout_s=self.commit_s)
        except StrandlineError as error:
            if self._assigned(names):
                logger.warning("offsets of partitions that are given up are not committed: %s", error)
                self._handout.tell(error)

    def _assigned(self, names: Iterable[TopicPartition]) -> bool:
        return all(self._reader.positions.find(name) is not None for name in names)

    def _drop(self, names: Iterable[TopicPartition]) -> None:
        self._reader.drop(names)
        self._handout.forget(set(names))
