"""Looks up offsets by time at the leaders. Each partition's result counts as soon as it arrives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from strandline.adapters.codecs.log import EPOCH_ENDS, LIST_OFFSETS
from strandline.adapters.rpc.request_parsing import REQUEST_ELEMENTS_MAX
from strandline.client.cluster import Cluster
from strandline.client.leaders import Questions, ask_each_leader, ask_leaders
from strandline.config.client import ClientSettings
from strandline.errors import StrandlineError
from strandline.ids import TopicPartition
from strandline.ports import Clock
from strandline.vocabulary.log import EpochQuery, ListedEpochEnd, ListedOffset, OffsetQuery

Answer = TypeVar("Answer")
Found = dict[TopicPartition, ListedOffset | StrandlineError]

OnEnd = Callable[[TopicPartition, ListedOffset | StrandlineError], bool]
"""Called with the result of one partition's lookup. True: look it up again, for another `timeout_s`."""


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    settings: ClientSettings,
    clock: Clock,
    *,
    timeout_s: float,
    stable: bool = False,
) -> Found:
    """The offset of a timestamp (milliseconds, LATEST or EARLIEST) for each partition, or the last error, as
    `ask_leaders` says. `stable`: of what is below the last stable offset."""
    return await ask_leaders(cluster, _questions(wanted, stable=stable), settings, clock, timeout_s=timeout_s)


async def list_each_offset(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    settings: ClientSettings,
    clock: Clock,
    *,
    timeout_s: float,
    on_end: OnEnd,
    stable: bool = False,
) -> None:
    """As `list_offsets`, but `on_end` gets each partition's offset or error as soon as it is known."""
    questions = _questions(wanted, stable=stable)
    await ask_each_leader(cluster, questions, settings, clock, timeout_s=timeout_s, on_end=on_end)


def _questions(wanted: Mapping[TopicPartition, int], *, stable: bool) -> Questions[OffsetQuery, ListedOffset]:
    queries = {name: OffsetQuery(name, timestamp_ms, stable=stable) for name, timestamp_ms in wanted.items()}
    return Questions(LIST_OFFSETS, queries, REQUEST_ELEMENTS_MAX)


def known(answers: Mapping[TopicPartition, Answer | StrandlineError]) -> dict[TopicPartition, Answer]:
    """The answers about all these partitions. Raises the first error."""
    found: dict[TopicPartition, Answer] = {}
    for name, answer in answers.items():
        if isinstance(answer, StrandlineError):
            raise answer
        found[name] = answer
    return found


async def list_epoch_ends(
    cluster: Cluster,
    epochs: Mapping[TopicPartition, int],
    settings: ClientSettings,
    clock: Clock,
    *,
    timeout_s: float,
) -> dict[TopicPartition, ListedEpochEnd | StrandlineError]:
    """Where a leader epoch ends in each partition, or the last error, as `ask_leaders` says."""
    queries = {name: EpochQuery(name, epoch) for name, epoch in epochs.items()}
    questions = Questions(EPOCH_ENDS, queries, REQUEST_ELEMENTS_MAX)
    return await ask_leaders(cluster, questions, settings, clock, timeout_s=timeout_s)
