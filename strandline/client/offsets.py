"""Offsets by time, asked from the leaders."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping

from strandline.client.backoff import backoff_s
from strandline.client.cluster import Cluster
from strandline.client.messages import ListedOffset, OffsetQuery
from strandline.client.wire import LIST_OFFSETS
from strandline.config import ClientSettings
from strandline.errors import LeaderNotAvailable, StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Clock

Found = dict[TopicPartition, ListedOffset | StrandlineError]


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    settings: ClientSettings,
    clock: Clock,
    *,
    timeout_s: float,
) -> Found:
    """For each partition the offset of a timestamp (milliseconds, LATEST or EARLIEST), or the last
    error met when it was not retriable or the time was up."""
    deadline = clock.monotonic() + timeout_s
    found: Found = {}
    for attempt in itertools.count(1):
        left = {name: at for name, at in wanted.items() if not isinstance(found.get(name), ListedOffset)}
        found |= await _ask_once(cluster, left)
        again = {
            name: end for name, end in found.items() if isinstance(end, StrandlineError) and end.retriable
        }
        if not again or clock.monotonic() >= deadline:
            break
        for name, error in again.items():
            cluster.follow(name, error)
        await clock.sleep(backoff_s(settings, attempt))
    return found


async def _ask_once(cluster: Cluster, wanted: Mapping[TopicPartition, int]) -> Found:
    """Ask each leader once, all at the same time."""
    found: Found = {}
    by_broker: dict[int, list[OffsetQuery]] = {}
    for name, timestamp_ms in wanted.items():
        try:
            leader = await cluster.led_by(name)
        except StrandlineError as error:
            found[name] = error
        else:
            by_broker.setdefault(leader.broker, []).append(OffsetQuery(name, timestamp_ms))

    async def ask(broker: int, queries: list[OffsetQuery]) -> None:
        try:
            answers = {answer.name: answer for answer in await cluster.call(broker, LIST_OFFSETS, queries)}
        except StrandlineError as error:
            found.update(dict.fromkeys((query.name for query in queries), error))
            return
        for query in queries:
            answer = answers.get(query.name)
            if answer is None:
                found[query.name] = LeaderNotAvailable(f"broker {broker} said nothing about {query.name}")
            else:
                found[query.name] = answer.error or answer

    async with asyncio.TaskGroup() as tasks:
        for broker, queries in by_broker.items():
            tasks.create_task(ask(broker, queries))
    return found
