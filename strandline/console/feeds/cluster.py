"""Asks again and again for the state of the cluster: its brokers, its controller, its topics."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import replace
from typing import Any, Final

from strandline.client.admin.admin import Admin
from strandline.console.core.readings import Readings
from strandline.console.core.seen import Seen
from strandline.errors import (
    BrokerNotAvailable,
    StrandlineError,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from strandline.ports import Clock
from strandline.vocabulary.metadata import ClusterMetadata

UNSEEN: Final = (UnknownTopicOrPartition, TopicAuthorizationFailed)


class ClusterFeed:
    """The last seen state of the cluster, in `seen`. `changed` is called when it is another than before."""

    def __init__(
        self,
        admin: Admin,
        clock: Clock,
        refresh_ms: int,
        answer_ms: int,
        changed: Callable[[], None],
        first: Callable[[], Awaitable[None]],
    ) -> None:
        """`first`: what brokers should do before they are asked for the metadata of all topics. An answer
        that takes longer than `answer_ms` is still waited for, but until it comes no broker counts as
        answering."""
        self.seen = Seen()
        self._admin = admin
        self._clock = clock
        self._refresh_s = refresh_ms / 1000
        self._answer_s = answer_ms / 1000
        self._changed = changed
        self._first = first
        self._readings = Readings(self._refresh_s)
        self._poked = asyncio.Event()

    def topics_changed(self, topics: Collection[str]) -> None:
        """Something has happened to these topics: their state is read soon."""
        self._readings.changed(topics, self._clock.monotonic())
        self._poked.set()

    async def run(self) -> None:
        """Reads without an end. The two halves do not wait for each other: there are brokers without a
        controller."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._metadata_again_and_again())
            tasks.create_task(self._describe_again_and_again())

    async def _metadata_again_and_again(self) -> None:
        await self._first()
        while True:
            self._poked.clear()
            began_s = self._clock.monotonic()
            wait_s, whole, topics = self._readings.next(began_s)
            if wait_s > 0:
                await self._wait(wait_s)
                continue
            await self._noted(self._read_metadata(None if whole else topics))
            failed = bool(self.seen.problem)
            self._readings.was_read(began_s, self._clock.monotonic(), whole=whole, failed=failed)

    async def _describe_again_and_again(self) -> None:
        while True:
            await self._noted(self._describe())
            await self._clock.sleep(self._refresh_s)

    async def _noted(self, reading: Coroutine[Any, Any, None]) -> None:
        before = self.seen
        await reading
        if not _same(before, self.seen):
            self._changed()

    async def _wait(self, wait_s: float) -> None:
        """Waits this long, or until topics have changed."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._poked.wait()

    async def _read_metadata(self, topics: Sequence[str] | None) -> None:
        """Reads the brokers and these topics; None: all."""
        late = asyncio.get_running_loop().call_later(self._answer_s, self._is_late)
        try:
            found = await (self._admin.metadata() if topics is None else self._some(topics))
        except StrandlineError as error:
            unanswered = isinstance(error, BrokerNotAvailable)
            self.seen = replace(self.seen, problem=error.message, unanswered=unanswered)
            return
        finally:
            late.cancel()
        self.seen = replace(
            self.seen.with_brokers(found.brokers),
            cluster_id=found.cluster_id,
            topics=found.topics,
            read_at_ms=self._clock.wall_ms(),
            problem="",
            unanswered=False,
        )

    def _is_late(self) -> None:
        """Brokers that hang are tried one after the other, which may take a minute."""
        if not self.seen.problem:
            said = f"no broker answered within {self._answer_s:g} s"
            self.seen = replace(self.seen, problem=said, unanswered=True)
            self._changed()

    async def _some(self, topics: Sequence[str]) -> ClusterMetadata:
        """The cluster with these topics as they are now, and the others as they were seen last."""
        known = {each.name: each for each in self.seen.topics}
        if not known:
            return await self._admin.metadata()
        asked = topics or [min(self.seen.topics, key=lambda each: len(each.partitions)).name]
        try:
            found = [await self._admin.metadata(asked)]
        except UNSEEN:  # of one of them: of which is not said
            found = []
            for name in asked:
                with contextlib.suppress(*UNSEEN):
                    found.append(await self._admin.metadata([name]))
        if not found:
            return await self._admin.metadata()
        for name in asked:
            known.pop(name, None)
        known |= {topic.name: topic for each in found for topic in each.topics}
        return replace(found[-1], topics=tuple(known[name] for name in sorted(known)))

    async def _describe(self) -> None:
        try:
            found = await self._admin.describe_cluster()
            moves = await self._admin.list_reassignments()
        except StrandlineError as error:
            self.seen = replace(self.seen, controller_problem=error.message)
            return
        self.seen = replace(
            self.seen,
            controller=found.controller,
            described=found.brokers,
            moves=tuple(moves),
            described_at_ms=self._clock.wall_ms(),
            controller_problem="",
        )


def _same(before: Seen, after: Seen) -> bool:
    """Whether nothing has changed but the times of the readings."""
    return replace(before, read_at_ms=after.read_at_ms, described_at_ms=after.described_at_ms) == after
