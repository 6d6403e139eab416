"""The facts that a driver needs for planning: the topics, the bounds of their logs, and the offsets of times.
They are read at every trigger, so each reading takes one request to each broker."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from strandline.adapters.system_host import client_host
from strandline.client.admin.groups import GroupAdmin
from strandline.client.client import Client
from strandline.client.cluster import Cluster
from strandline.client.offsets import list_epoch_ends, list_offsets
from strandline.client.retry import Tries, retry
from strandline.config.client import ClientSettings
from strandline.config.load import load
from strandline.errors import (
    StrandlineError,
    UnknownTopicOrPartition,
)
from strandline.host import Host
from strandline.ids import TopicPartition
from strandline.pipeline.core.options import Selection
from strandline.pipeline.core.ranges import Bounds
from strandline.vocabulary.log import LATEST, ListedEpochEnd, ListedOffset, MetadataQuery
from strandline.vocabulary.log_position import LogPosition
from strandline.vocabulary.metadata import TopicMetadata

Found = TypeVar("Found")

RETRIES: Final = 3
PATIENCE_S: Final = 120.0
TOPICS_AGE_S_MAX: Final = 1.0
"""How long topics and their partitions are cached; a broker reads ZooKeeper for them."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Existing topics, and the bounds of their logs at one moment. `missing` are named topics that do not
    exist."""

    ids: Mapping[str, str]
    bounds: Mapping[TopicPartition, Bounds]
    missing: Collection[str]


class ClusterFacts(Client[ClientSettings]):
    """One client. A failed request is retried at intervals of `retry_interval_ms`.

    With `retries` None that is RETRIES times until a broker has answered once, as the addresses may be wrong,
    and afterwards for `patience_s`: Spark ends a stream whose driver raises, however many batches it has had.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        retries: int | None = None,
        retry_interval_ms: int = 1_000,
        patience_s: float = PATIENCE_S,
        stable: bool = False,
        host: Host | None = None,
        **connecting: Any,
    ) -> None:
        """`connecting`: settings of its connections. `stable`: logs end at their last stable offsets."""
        settings = load(ClientSettings, **connecting)
        host = client_host(settings, host)
        super().__init__("driver's client", bootstrap, settings, host.transport(None), host.clock)
        self._tries = (RETRIES if retries is None else retries) + 1
        self._patience_s = patience_s if retries is None else None
        self._answered = False
        self._stable = stable
        self._interval_s = retry_interval_ms / 1000
        interval_ms = max(1, retry_interval_ms)
        self._intervals = ClientSettings(retry_backoff_ms=interval_ms, retry_backoff_ms_max=interval_ms)
        self._matched: tuple[str, list[str], float] | None = None
        self._described: tuple[dict[str, TopicMetadata], float] = ({}, float("-inf"))

    # --- snapshots ---------------------------------------------------------------------------

    async def snapshot(self, selection: Selection, *, expected: Collection[str] | None = None) -> Snapshot:
        """The topics of a selection, with all their partitions (for `assign`: the assigned ones).

        `expected` topics (by default all named ones) are looked up again before they are reported missing:
        not every broker learns of a topic at once. Raises UnknownTopicOrPartition for an assigned partition
        that its topic does not have, LeaderNotAvailable, BrokerNotAvailable.
        """
        self._scope.check()
        names, topics = await self._until(
            lambda: self._looked_up(selection, expected),
            lambda found: found[1].keys() >= set(found[0] if expected is None else expected),
        )
        wanted = _partitions(selection, topics)
        listed = await self.listed(dict.fromkeys(wanted, LATEST))
        if not _as_described(topics, listed):
            # A leader has a later epoch than the topic's metadata: the topic may be another one.
            topics = await self._known_by(topics, listed)
            wanted = _partitions(selection, topics)
            listed = await self.listed(dict.fromkeys(wanted, LATEST))
        return Snapshot(
            {name: topic.topic_id for name, topic in topics.items()},
            {
                name: Bounds(end.log_start_offset, end.offset, end.leader_epoch)
                for name, end in listed.items()
            },
            [name for name in names if name not in topics],
        )

    async def snapshot_until(
        self,
        settled: Callable[[Snapshot], bool],
        selection: Selection,
        *,
        expected: Collection[str] | None = None,
    ) -> Snapshot:
        """A `snapshot`, repeated until it is `settled` or the retries are used up; returns the last one.

        A change of leader hides committed records for a moment (KIP-207), so one reading proves no end.
        """
        return await self._until(lambda: self.snapshot(selection, expected=expected), settled)

    async def _until(self, look: Callable[[], Awaitable[Found]], settled: Callable[[Found], bool]) -> Found:
        """Repeat a reading until it is settled or the retries are used up."""
        found = await look()
        for _ in range(1, self._tries):
            if settled(found):
                break
            await self._clock.sleep(self._interval_s)
            self.forget()
            found = await look()
        return found

    def forget(self) -> None:
        """Drop the cached topics."""
        self._matched, self._described = None, ({}, float("-inf"))

    async def listed(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        """The offsets of times (milliseconds), with the bounds of each log. One request to each broker.

        Raises the first error, with the partition's name.
        """

        async def ask() -> Mapping[TopicPartition, ListedOffset | StrandlineError]:
            timeout_s, stable = self._cluster.request_timeout_s, self._stable
            return await list_offsets(
                self._cluster, wanted, self._settings, self._clock, timeout_s=timeout_s, stable=stable
            )

        return await self._retried(lambda: _all(ask())) if wanted else {}

    async def epoch_ends(self, epochs: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedEpochEnd]:
        """For each of these logs the largest epoch not above the given one, and its end. Raises as
        `listed`."""

        async def ask() -> Mapping[TopicPartition, ListedEpochEnd | StrandlineError]:
            timeout_s = self._cluster.request_timeout_s
            return await list_epoch_ends(
                self._cluster, epochs, self._settings, self._clock, timeout_s=timeout_s
            )

        return await self._retried(lambda: _all(ask())) if epochs else {}

    # --- topics ------------------------------------------------------------------------------

    async def _looked_up(
        self, selection: Selection, expected: Collection[str] | None
    ) -> tuple[list[str], dict[str, TopicMetadata]]:
        """The names of the expected topics, and the existing ones."""
        names = await self._names(selection)
        if selection.pattern:
            names = sorted({*names, *(expected or ())})
        return names, await self._topics(names)

    async def _names(self, selection: Selection) -> list[str]:
        if selection.pattern:
            return await self._matching(selection)
        return sorted({name.topic for name in selection.partitions} or selection.topics)

    async def _matching(self, selection: Selection) -> list[str]:
        now = self._clock.monotonic()
        if self._matched is not None:
            pattern, names, asked_at = self._matched
            if pattern == selection.pattern and now - asked_at < TOPICS_AGE_S_MAX:
                return names
        counts = await self._retried(lambda: self._cluster.partition_counts(()))
        names = selection.matching(counts)
        self._matched = (selection.pattern, names, now)
        return names

    async def _topics(self, names: Sequence[str]) -> dict[str, TopicMetadata]:
        """The existing ones of these topics."""
        described, asked_at = self._described
        now = self._clock.monotonic()
        if now - asked_at >= TOPICS_AGE_S_MAX or any(name not in described for name in names):
            described = await self._retried(lambda: describe(self._cluster, names))
            self._described = (described, now)
        return {name: described[name] for name in names if name in described}

    async def _known_by(
        self, topics: Mapping[str, TopicMetadata], listed: Mapping[TopicPartition, ListedOffset]
    ) -> dict[str, TopicMetadata]:
        """The topics' metadata from a broker that knows these leaders."""
        names = sorted(topics)
        tries = Tries(self._settings, self._clock, self._cluster.request_timeout_s)
        while True:
            self.forget()
            found = await self._topics(names)
            same = {name: end for name, end in listed.items() if _same_topic(name, topics, found)}
            if _as_described(found, same) or tries.over:
                return found
            await tries.pause()

    async def _retried(self, ask: Callable[[], Awaitable[Found]]) -> Found:
        patience_s = self._patience_s if self._answered else None
        found = await retry(
            ask,
            f"a look at the cluster is repeated each {self._interval_s:.1f} s",
            settings=self._intervals,
            clock=self._clock,
            limit_s=float("inf") if patience_s is None else patience_s,
            tries_max=self._tries if patience_s is None else None,
            level=logging.WARNING,
        )
        self._answered = True
        return found

    # --- groups ------------------------------------------------------------------------------

    async def commit(self, group: str, offsets: Mapping[TopicPartition, LogPosition]) -> None:
        """Commit these positions for a group without members. Raises as `GroupAdmin.alter_offsets`."""
        admin = GroupAdmin(self._cluster, self._settings, self._transport, self._clock)
        await admin.alter_offsets(group, offsets)


async def _all(
    asked: Awaitable[Mapping[TopicPartition, Found | StrandlineError]],
) -> dict[TopicPartition, Found]:
    """The answers about all partitions. Raises the first error, with the partition's name."""
    answers: dict[TopicPartition, Found] = {}
    for name, answer in (await asked).items():
        if isinstance(answer, StrandlineError):
            raise type(answer)(f"the offsets of {name} cannot be asked for: {answer.message}") from answer
        answers[name] = answer
    return answers


async def describe(cluster: Cluster, names: Sequence[str]) -> dict[str, TopicMetadata]:
    """The present metadata of the existing ones of these topics.

    Raises BrokerNotAvailable, and errors of single topics.
    """
    if not names:
        return {}
    answer = await cluster.ask(MetadataQuery(names))
    for error in answer.errors.values():
        if not isinstance(error, UnknownTopicOrPartition):
            raise error
    return {topic.name: topic for topic in answer.cluster.topics if topic.partitions}


def _partitions(selection: Selection, topics: Mapping[str, TopicMetadata]) -> list[TopicPartition]:
    if not selection.partitions:
        return [
            TopicPartition(name, partition.partition)
            for name, topic in topics.items()
            for partition in topic.partitions
        ]
    wanted = [name for name in selection.partitions if name.topic in topics]
    for name in wanted:
        count = len(topics[name.topic].partitions)
        if name.partition >= count:
            raise UnknownTopicOrPartition(
                f"assign: there is no {name}, topic {name.topic!r} has {count} partitions"
            )
    return wanted


def _same_topic(
    name: TopicPartition, before: Mapping[str, TopicMetadata], now: Mapping[str, TopicMetadata]
) -> bool:
    return name.topic in now and now[name.topic].topic_id == before[name.topic].topic_id


def _as_described(topics: Mapping[str, TopicMetadata], listed: Mapping[TopicPartition, ListedOffset]) -> bool:
    """Whether no leader has a later epoch than its topic's metadata: epochs grow over the whole cluster, so
    the leaders of a topic that was created again have later ones."""
    return all(
        name.topic in topics
        and name.partition < len(topics[name.topic].partitions)
        and end.leader_epoch <= topics[name.topic].partitions[name.partition].leader_epoch
        for name, end in listed.items()
    )
