"""Reads the changelogs of all restoring tasks of a member, and writes them into their stores.

It takes one batch at a time: unapplied records stay in the reader's
buffer, which is bounded, so a slow store only slows the fetching. The changelogs take turns, a slice at a
time, and the event loop runs between slices; so a large one delays neither the small ones nor the running
tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from strandline.adapters.system_host import client_host
from strandline.client.backoff import backoff_s
from strandline.client.offsets import known, list_epoch_ends
from strandline.client.reading.client import ReadingClient
from strandline.client.reading.records import FetchedBatch
from strandline.client.retry import retry
from strandline.config.consumer import ConsumerSettings
from strandline.config.load import load
from strandline.errors import InvalidRequest, OffsetOutOfRange, StrandlineError, UnknownTopicOrPartition
from strandline.host import Host
from strandline.ids import NO_EPOCH, TopicPartition
from strandline.ports import CallUnknown
from strandline.streams.core.task import TaskId
from strandline.streams.restore.identities import Identities
from strandline.streams.restore.restoration import Restorable, Restoration
from strandline.vocabulary.log import LATEST, ListedOffset
from strandline.vocabulary.log_position import EpochEnd
from strandline.vocabulary.topic_config import TopicConfig

T = TypeVar("T")

ASK_S: Final = 1.0
"""How long leaders are asked before the attempt fails and is logged; then they are asked again."""


class Restorer(ReadingClient):
    """The restorer for all tasks of a member. `settings` are those of a consumer."""

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        settings: Mapping[str, Any],
        host: Host | None = None,
    ) -> None:
        reading = {"offset_reset": "none", "isolation_level": "read_committed"}
        loaded = load(ConsumerSettings, **{**settings, **reading})
        host = client_host(loaded, host)
        super().__init__(
            "restorer", bootstrap, loaded, host.transport(None), host.clock, follows_topics=False
        )
        self._restorations: dict[TopicPartition, Restoration] = {}
        self._identities = Identities(self._cluster)
        self._known: dict[TopicPartition, str] = {}

    async def start(self) -> None:
        await super().start()
        self._scope.spawn(self._apply(), "apply")

    async def stop(self) -> None:
        """End every restoration, and notify its waiters."""
        try:
            await super().stop()
        finally:
            for restoration in list(self._restorations.values()):
                restoration.finish()

    def _failed(self, error: BaseException) -> None:
        for restoration in list(self._restorations.values()):
            restoration.fail(error)

    # --- called by tasks --------------------------------------------------------------------------

    def begin(self, task: TaskId, changelog: TopicPartition, store: Restorable) -> Restoration:
        """Restore from the store's checkpoint on, until the restoration ends.

        There must be no other writer of the store meanwhile. Raises InvalidRequest if the changelog is
        already being restored, or the restorer is not running.
        """
        self._scope.check()
        if changelog in self._restorations:
            raise InvalidRequest(f"{changelog} is being restored already")
        restoration = Restoration(task, changelog, store, changelogs=self, clock=self._clock)
        self._restorations[changelog] = restoration
        self._scope.spawn(self._place(restoration), f"place {changelog}")
        return restoration

    async def identity(self, changelog: TopicPartition) -> str:
        """The identity of a changelog: its topic's id, and the partition. A later topic with its name has
        another one.

        Waits while no broker answers. Raises UnknownTopicOrPartition.
        """
        self._scope.check()
        found = await self._retry(lambda: self._identities.find(changelog))
        self._known[changelog] = found
        return found

    async def check_identity(self, changelog: TopicPartition) -> None:
        """Raises UnknownTopicOrPartition if it differs from the last result of `identity`."""
        known = self._known.get(changelog)
        if known is None:
            return
        found = await self._retry(lambda: self._identities.find(changelog))
        if found != known:
            raise UnknownTopicOrPartition(
                f"{changelog} was deleted, and another topic has its name now: {found} in place of {known}"
            )

    async def bounds(self, changelog: TopicPartition) -> ListedOffset:
        """The current begin and end of the leader's log. Waits while no leader answers.

        Raises UnknownTopicOrPartition.
        """
        return await self._retry(lambda: self._ask_bounds(changelog))

    async def epoch_end(self, changelog: TopicPartition, epoch: int) -> EpochEnd | None:
        """Where the largest leader epoch not above this one ends in the leader's log; None for NO_EPOCH, and
        if the leader is of an earlier version, which cannot tell.

        Waits while no leader answers. Raises UnknownTopicOrPartition.
        """
        if epoch == NO_EPOCH:
            return None
        return await self._retry(lambda: self._ask_epoch_end(changelog, epoch))

    # --- called by restorations -------------------------------------------------------------------

    def take(self, changelog: TopicPartition) -> FetchedBatch | None:
        """The next arrived batch of a changelog, which makes room for others."""
        return self._reader.take(changelog)

    def high_watermark(self, changelog: TopicPartition) -> int | None:
        state = self._reader.positions.find(changelog)
        return None if state is None else state.high_watermark

    def reopen(self, restoration: Restoration) -> None:
        """Look up again where its log begins and ends, and continue there."""
        if restoration.placed and not restoration.over:
            restoration.placed = False
            self._reader.drop([restoration.changelog])
            self._scope.spawn(self._place(restoration), f"place {restoration.changelog}")

    def forget(self, restoration: Restoration) -> None:
        """Stop reading it."""
        del self._restorations[restoration.changelog]
        self._reader.drop([restoration.changelog])

    # --- reading --------------------------------------------------------------------------------

    async def _place(self, restoration: Restoration) -> None:
        """Begin to read at the store's checkpoint, if the log still contains it."""
        name = restoration.changelog
        if restoration.placings:
            await self._clock.sleep(backoff_s(self._settings, restoration.placings))
            if restoration.over:
                return
        restoration.placings += 1
        kept = restoration.store.kept
        try:
            listed = await self.bounds(name)
            end = await self.epoch_end(name, kept.leader_epoch)
            if restoration.over:
                return
            restoration.place(listed, end, self._tombstones_ms(name.topic))
        except StrandlineError as error:
            restoration.fail(error)
            return
        self._reader.add([name])
        self._reader.seek(name, restoration.store.checkpoint)

    async def _apply(self) -> None:
        """Apply a slice of each in turn, as long as records arrive."""
        while True:
            busy = False
            for restoration in list(self._restorations.values()):
                if self._step(restoration):
                    busy = True
                    await asyncio.sleep(0)
            if not busy:
                await self._wakeups.wait(None)

    def _step(self, restoration: Restoration) -> bool:
        try:
            if restoration.step():
                return True
            error = None if restoration.over else self._wakeups.error(restoration.changelog)
            if isinstance(error, OffsetOutOfRange):
                self.reopen(restoration)
            elif error is not None and not error.retriable:
                raise error
        except StrandlineError as failure:
            restoration.fail(failure)
        return False

    def _tombstones_ms(self, changelog: str) -> int | None:
        """How long compaction keeps tombstones at least; None if it is not known."""
        topic = self._cluster.known_topic(changelog)
        if topic is None:
            return None
        default = TopicConfig().delete_retention_ms
        return int(topic.config.get("delete.retention.ms", default))

    # --- requests ---------------------------------------------------------------------------------

    async def _retry(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Retries without a limit, but waits no longer than the request timeout for an unknown topic."""
        missed_at: float | None = None

        def retriable(error: StrandlineError) -> bool:
            nonlocal missed_at
            if not isinstance(error, UnknownTopicOrPartition):
                missed_at = None
                return error.retriable
            now = self._clock.monotonic()
            missed_at = now if missed_at is None else missed_at
            return error.retriable and now - missed_at < self._cluster.request_timeout_s

        return await retry(
            ask, "restoring waits", settings=self._settings, clock=self._clock, retriable=retriable
        )

    async def _ask_bounds(self, changelog: TopicPartition) -> ListedOffset:
        return (await self._reader.finder.list({changelog: LATEST}, ASK_S))[changelog]

    async def _ask_epoch_end(self, changelog: TopicPartition, epoch: int) -> EpochEnd | None:
        wanted = {changelog: epoch}
        found = await list_epoch_ends(self._cluster, wanted, self._settings, self._clock, timeout_s=ASK_S)
        try:
            return known(found)[changelog].end
        except CallUnknown:
            return None
