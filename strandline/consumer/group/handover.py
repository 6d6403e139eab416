"""Takes over and releases partitions, as the membership decides.

`prepare` stops the delivery of a partition's records at once. Everything else happens in turn, one listener
call after the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable

from strandline.client.reading.partition_reader import PartitionReader
from strandline.config.consumer import ConsumerSettings
from strandline.consumer.core.member_effects import Assign, Lose, Revoke
from strandline.consumer.delivery import RecordDelivery
from strandline.consumer.group.commits import Commits
from strandline.consumer.group.listener import Listening
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition

logger = logging.getLogger(__name__)


class Handover:
    """`owned` returns the partitions that the member owns now."""

    def __init__(
        self,
        *,
        reader: PartitionReader,
        delivery: RecordDelivery,
        commits: Commits,
        listening: Listening,
        settings: ConsumerSettings,
        owned: Callable[[], frozenset[TopicPartition]],
    ) -> None:
        self._reader = reader
        self._delivery = delivery
        self._commits = commits
        self._listening = listening
        self._settings = settings
        self._owned = owned
        self._announced: dict[TopicPartition, None] = {}
        """Partitions that the listener knows as assigned."""
        self._to_release: Counter[TopicPartition] = Counter()
        """Partitions that are to be released, and wait for their turn."""
        self._cut: asyncio.Timeout | None = None
        """Ends the drain and the commit in progress."""
        self.holding = False
        """True while newly assigned partitions are to be released at once, with all others."""
        self._drain_s = settings.max_poll_interval_ms / 1000
        self.commit_s = min(settings.request_timeout_ms, settings.max_poll_interval_ms / 2) / 1000
        """How long to try to commit before a release."""

    def prepare(self, effect: Assign | Revoke | Lose) -> None:
        """Stop the delivery of partitions that are to be released, or are lost."""
        if isinstance(effect, Assign):
            return
        self._to_release.update(effect.partitions)
        if isinstance(effect, Revoke):
            self._reader.hold(effect.partitions)
        else:
            self._commits.note_lost(effect.partitions, effect.reason)
            self._drop(effect.partitions)
            self._delivery.interrupt()
            if self._cut is not None:
                self._cut.reschedule(0)

    def hold_all(self) -> None:
        """Deliver nothing more, not even of new partitions: everything is to be released."""
        self.holding = True
        self._reader.hold([state.name for state in self._reader.positions])

    async def commit_early(self) -> None:
        """Commit what is processed by now, of all partitions. The release commits the rest."""
        if not self._settings.enable_auto_commit:
            return
        try:
            await self._commits.commit_processed(timeout_s=self.commit_s)
        except StrandlineError as error:
            logger.info("offsets are not committed before a rebalance has ended: %s", error)

    async def assign(self, effect: Assign) -> None:
        """Find positions, call the listener, and only then fetch."""
        owned = self._owned()
        added = [name for name in effect.added if name in owned]
        if effect.added and not added:
            return  # lost before the listener knew them
        self._reader.add(added, held=True)
        self._announced.update(dict.fromkeys(added))
        await self._listening.assigned(added)
        if not self.holding:
            self._reader.let_go(name for name in added if not self._to_release[name])

    async def revoke(self, effect: Revoke) -> bool:
        """Drain, commit, call the listener, release. False if the partitions were lost meanwhile.

        If the application keeps records in hand for longer than the group waits for it, the partitions are
        lost: the listener hears `on_lost`, since another member may have them already.
        """
        names = effect.partitions
        self._to_release.subtract(names)
        if not self._assigned(names):
            return False
        try:
            async with asyncio.timeout(None) as self._cut:
                in_order = await self._drain(names)
                await self._commit(names)
        except TimeoutError:
            return False
        finally:
            self._cut = None
        if not self._assigned(names):
            return False
        self._forget(names)
        await (self._listening.revoked(names) if in_order else self._listening.lost(names))
        self._commits.note_lost(self._delivery.in_hand(names), "they were given up with records in hand")
        self._drop(names)
        return True

    async def lose(self, effect: Lose) -> None:
        """Call the listener; `prepare` did the rest."""
        self._to_release.subtract(effect.partitions)
        lost = [name for name in effect.partitions if name in self._announced]
        self._forget(lost)
        if lost:
            await self._listening.lost(lost)

    async def _drain(self, names: Iterable[TopicPartition]) -> bool:
        """False if records are still in hand at the end of the time, and the application may work on them."""
        if await self._delivery.drained(set(names), self._drain_s):
            return True
        logger.warning(
            "%d partitions are given up with records in hand: others read those again that are not committed",
            len(self._delivery.in_hand(set(names))),
        )
        return self._delivery.abandoned

    async def _commit(self, names: Iterable[TopicPartition]) -> None:
        """Commit what is processed. If that fails, other members read the records again; the release must not
        wait for it (CORRECTNESS G6, G7)."""
        try:
            await self._commits.commit_finally(names, timeout_s=self.commit_s)
        except StrandlineError as error:
            if self._assigned(names):
                logger.warning("offsets of partitions that are given up are not committed: %s", error)
                self._delivery.raise_next(error)

    def _assigned(self, names: Iterable[TopicPartition]) -> bool:
        return all(self._reader.positions.find(name) is not None for name in names)

    def _forget(self, names: Iterable[TopicPartition]) -> None:
        for name in names:
            self._announced.pop(name, None)

    def _drop(self, names: Iterable[TopicPartition]) -> None:
        self._reader.drop(names)
        self._delivery.forget(set(names))
