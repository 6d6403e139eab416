"""From options to offsets: the begin and the end of a query, in the present logs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from strandline.errors import UnknownTopicOrPartition
from strandline.ids import TopicId, TopicPartition
from strandline.pipeline.core.offsets import EARLIEST, LATEST, Offsets, listed
from strandline.pipeline.core.options import READ_COMMITTED, Bound, Selection, SourceOptions
from strandline.pipeline.core.pruning import Pruning, pruned
from strandline.pipeline.core.ranges import OffsetRange, begin_in_log, pieces
from strandline.pipeline.errors import InvalidOption, NoOffset
from strandline.pipeline.reading.cluster_facts import ClusterFacts, Snapshot
from strandline.pipeline.reading.ranges import lose
from strandline.vocabulary.log import ListedOffset
from strandline.vocabulary.log_position import same_topic


def facts(options: SourceOptions) -> ClusterFacts:
    """A client with these options, not started yet."""
    to = options.connection
    return ClusterFacts(
        to.bootstrap,
        retries=options.retries,
        retry_interval_ms=options.retry_interval_ms,
        patience_s=options.poll_timeout_ms / 1000,
        stable=options.isolation == READ_COMMITTED,
        **to.settings,
    )


def check_existing(missing: Collection[str]) -> None:
    """Raises UnknownTopicOrPartition for named topics that do not exist."""
    if missing:
        names = ", ".join(map(repr, sorted(missing)))
        raise UnknownTopicOrPartition(
            f"there is no topic {names}: create it first, or correct `subscribe` or `assign`"
        )


async def begin(facts: ClusterFacts, options: SourceOptions, snapshot: Snapshot) -> dict[TopicPartition, int]:
    """The first offset of each partition. Raises InvalidOption, NoOffset."""
    bound = options.starting
    times = _times(bound, snapshot, "starting")
    if times is None:
        starts = _offsets(bound, snapshot, "startingOffsets", " (-2: earliest)")
        await _check_reached(facts, options.selection, snapshot, "startingOffsets", starts)
        return starts
    found = await facts.listed(times)
    late = [name for name, at in found.items() if at.offset < 0]
    if late and not options.time_missing_is_latest:
        raise NoOffset(
            f"{listed(late)}: no record is as young as {times[min(late)]} ms since 1970; "
            "startingOffsetsByTimestampStrategy=latest begins behind the last one there"
        )
    return _or_end(found, snapshot)


async def finish(
    facts: ClusterFacts, options: SourceOptions, snapshot: Snapshot
) -> dict[TopicPartition, int]:
    """The offset after the last of each partition. Raises InvalidOption."""
    times = _times(options.ending, snapshot, "ending")
    if times is None:
        ends = _offsets(options.ending, snapshot, "endingOffsets", " (-1: latest)")
        await _check_reached(facts, options.selection, snapshot, "endingOffsets", ends)
        return ends
    found = await facts.listed(times)
    return _or_end(found, snapshot)


def _or_end(found: Mapping[TopicPartition, ListedOffset], snapshot: Snapshot) -> dict[TopicPartition, int]:
    """The offsets that were looked for by time; the end of a log without a record that recent."""
    return {name: snapshot.bounds[name].end if at.offset < 0 else at.offset for name, at in found.items()}


async def batch_ranges(options: SourceOptions, where: Pruning) -> list[OffsetRange]:
    """The ranges that a batch query reads in the present logs: those of the options, reduced to where the
    query's conditions allow rows.

    Raises InvalidOption, NoOffset, DataLost, UnknownTopicOrPartition, and errors of brokers.
    """
    async with facts(options) as known:
        snapshot = await known.snapshot(options.selection)
        check_existing(snapshot.missing)
        starts = await begin(known, options, snapshot)
        ends = await finish(known, options, snapshot)
        for name, start in starts.items():
            if start > ends[name] and options.starting.offsets is not None:
                raise InvalidOption(
                    f"startingOffsets: {name} has {start}, and reading ends at offset {ends[name]}: "
                    "begin before, or end later"
                )
        whole = [
            OffsetRange(*name, starts[name], max(starts[name], ends[name]), snapshot.ids[name.topic])
            for name in sorted(starts)
        ]
        there = in_logs(pruned(whole, where), snapshot, fail_on_data_loss=options.fail_on_data_loss)
        return await _not_older(known, there, where.times_us.least)


async def _not_older(
    facts: ClusterFacts, wanted: Collection[OffsetRange], least_us: int | None
) -> list[OffsetRange]:
    """The ranges from the first record that is not too old. Times do not limit the other end: a record may be
    older than an earlier one."""
    if least_us is None or least_us <= 0:
        return list(wanted)
    found = await facts.listed({one.name: -(-least_us // 1000) for one in wanted})
    later = {name: at.offset for name, at in found.items() if at.offset >= 0}
    return [replace(one, start=min(one.end, max(one.start, later.get(one.name, one.end)))) for one in wanted]


def in_logs(
    wanted: Collection[OffsetRange], snapshot: Snapshot, *, fail_on_data_loss: bool
) -> list[OffsetRange]:
    """The parts of these ranges that the logs have. Raises DataLost if some are missing, or warns.

    The tasks find out if a topic was deleted since.
    """
    found = []
    for one in wanted:
        bounds = snapshot.bounds.get(one.name)
        if bounds is not None and same_topic(TopicId(one.topic_id), TopicId(snapshot.ids[one.topic])):
            one, loss = begin_in_log(replace(one, leader_epoch=bounds.leader_epoch), bounds)
            if loss is not None:
                lose(loss, fail=fail_on_data_loss)
        found.append(one)
    return found


def in_pieces(wanted: Collection[OffsetRange], options: SourceOptions) -> list[OffsetRange]:
    """The pieces for the tasks, as the options say."""
    return pieces(wanted, at_least=options.min_partitions, records_max=options.max_records)


def _times(bound: Bound, snapshot: Snapshot, which: str) -> Mapping[TopicPartition, int] | None:
    """The time of each partition, if times are given."""
    if bound.time_ms is not None:
        return dict.fromkeys(snapshot.bounds, bound.time_ms)
    if bound.times_ms is not None:
        _check_same(f"{which}OffsetsByTimestamp", bound.times_ms, snapshot, "")
    return bound.times_ms


def _offsets(bound: Bound, snapshot: Snapshot, option: str, edges: str) -> dict[TopicPartition, int]:
    if bound.offsets is not None:
        _check_same(option, bound.offsets, snapshot, edges)
    given = dict.fromkeys(snapshot.bounds, bound.edge) if bound.offsets is None else bound.offsets
    found: dict[TopicPartition, int] = {}
    for name, offset in given.items():
        bounds = snapshot.bounds[name]
        assert offset is not None
        found[name] = {LATEST: bounds.end, EARLIEST: bounds.start}.get(offset, offset)
    return found


async def _check_reached(
    facts: ClusterFacts, selection: Selection, snapshot: Snapshot, option: str, given: Offsets
) -> None:
    """Raises InvalidOption for an offset beyond the end of its log."""

    def beyond(seen: Snapshot) -> list[TopicPartition]:
        return sorted(name for name, end in seen.bounds.items() if given.get(name, 0) > end.end)

    if beyond(snapshot):
        snapshot = await facts.snapshot_until(lambda seen: not beyond(seen), selection)
    if late := beyond(snapshot):
        name = late[0]
        raise InvalidOption(
            f"{option}: {name} has {given[name]}, and its log ends at offset {snapshot.bounds[name].end}: "
            "give an offset up to that"
        )


def _check_same(option: str, given: Offsets, snapshot: Snapshot, edges: str) -> None:
    """Raises InvalidOption unless it names exactly the partitions that are read."""
    missing, unknown = snapshot.bounds.keys() - given.keys(), given.keys() - snapshot.bounds.keys()
    if missing or unknown:
        wrong = [f"says nothing of {listed(missing)}"] if missing else []
        wrong += [f"names {listed(unknown)}, which is not read"] if unknown else []
        raise InvalidOption(
            f"{option} {', and '.join(wrong)}: give all partitions that are read{edges}, and no others"
        )
