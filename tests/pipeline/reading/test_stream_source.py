"""A stream's reader as Spark calls it on the driver, over brokers in memory."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from strandline.errors import UnknownTopicOrPartition
from strandline.pipeline.core.options import source_options
from strandline.pipeline.core.ranges import OffsetRange
from strandline.pipeline.errors import DataLost, InvalidOption
from strandline.pipeline.reading.batch_source import RangePartition
from strandline.pipeline.reading.cluster_facts import ClusterFacts
from strandline.pipeline.reading.stream_source import COMMIT_S_MAX, StreamReader
from strandline.ports import Clock
from tests.strandline.client.log_world import CLOCK, LogWorld
from tests.strandline.client.network import FastClock, memory_host

ALL = ReadAllAvailable()
Offset = dict[str, Any]


class Query:
    """Plays Spark: it requests the end of a batch, writes it down, reads the batch, and continues."""

    def __init__(
        self,
        world: LogWorld,
        *,
        commit_s_max: float = COMMIT_S_MAX,
        clock: Clock = CLOCK,
        **options: str,
    ) -> None:
        self._clock = clock
        self._world = world
        self._commit_s_max = commit_s_max
        self._options = {
            "bootstrap": "broker1:1,broker2:1",
            "subscribe": "t",
            "fetchOffset.numRetries": "1",
            "fetchOffset.retryIntervalMs": "1",
            **options,
        }
        self.offset: Offset | None = None
        self.written: list[Offset] = []
        """The checkpoint's, batch by batch."""
        self._start()

    def _start(self) -> None:
        given = {name: text for name, text in self._options.items() if text}
        options = source_options(given, stream=True)
        self.reader = StreamReader(
            options,
            lambda _: ClusterFacts(
                options.connection.bootstrap,
                retries=1,
                retry_interval_ms=1,
                host=memory_host(self._world, CLOCK),
            ),
            commit_s_max=self._commit_s_max,
            clock=self._clock,
        )

    def restart(self, **options: str) -> None:
        """As after a crash: only the checkpoint is left."""
        self.reader.stop()
        self._options |= options
        self._start()

    def batch(self, *, fails: bool = False) -> list[tuple[int, int, int]]:
        """The next micro-batch, as (partition, start, end); none if there is nothing new."""
        start = self.offset or self.reader.initialOffset()
        end = self.reader.latestOffset(start, self.reader.getDefaultReadLimit())
        if json.dumps(end) == json.dumps(start):
            return []
        self.written.append(end)
        return self.repeat(fails=fails)

    def repeat(self, *, fails: bool = False) -> list[tuple[int, int, int]]:
        """The last batch that was written down, from the checkpoint."""
        planned = self.reader.partitions(self.offset or self.reader.initialOffset(), self.written[-1])
        ranges = [part.value for part in planned if isinstance(part, RangePartition)]
        if not fails:
            self.offset = self.written[-1]
        return [(one.partition, one.start, one.end) for one in ranges]


@pytest.fixture
def world() -> LogWorld:
    return LogWorld()


@pytest.fixture
def started(world: LogWorld) -> Iterator[list[Query]]:
    """Queries to stop at the end."""
    queries: list[Query] = []
    yield queries
    for query in queries:
        query.reader.stop()


def query(
    world: LogWorld,
    started: list[Query],
    *,
    commit_s_max: float = COMMIT_S_MAX,
    clock: Clock = CLOCK,
    **options: str,
) -> Query:
    started.append(Query(world, commit_s_max=commit_s_max, clock=clock, **options))
    return started[-1]


def test_a_stream_is_what_comes_after_its_begin(world: LogWorld, started: list[Query]) -> None:
    (log,) = world.create("t")
    log.write(5)
    stream = query(world, started)
    assert stream.batch() == []
    log.write(3)
    assert stream.batch() == [(0, 5, 8)]
    assert stream.batch() == []
    assert stream.reader.reportLatestOffset() == {"t": {"0": 8}, "@ids": {"t": "first"}}


def test_latest_is_found_once_though_spark_asks_again_and_again(
    world: LogWorld, started: list[Query]
) -> None:
    (log,) = world.create("t")
    stream = query(world, started)
    begin = stream.reader.initialOffset()
    log.write(4)
    assert stream.reader.initialOffset() == begin
    assert stream.batch() == [(0, 0, 4)]


def test_a_first_batch_that_fails_is_repeated_from_where_it_began(
    world: LogWorld, started: list[Query]
) -> None:
    (log,) = world.create("t")
    log.write(2)
    stream = query(world, started)
    stream.reader.initialOffset()
    log.write(4)
    assert stream.batch(fails=True) == [(0, 2, 6)]
    log.write(10)
    stream.restart()
    assert stream.repeat() == [(0, 2, 6)]
    assert stream.batch() == [(0, 6, 16)]


def test_new_partitions_and_topics_begin_at_their_first_record(world: LogWorld, started: list[Query]) -> None:
    first, second = world.create("t", 2)
    stream = query(world, started, subscribe="", subscribePattern="t.*")
    stream.reader.initialOffset()
    first.write(1)
    world.create("t2")[0].write(3)
    stream.restart()
    stream.offset = {"t": {"0": 0}, "@ids": {"t": "first"}}
    second.write(2)
    assert stream.batch() == [(0, 0, 1), (1, 0, 2), (0, 0, 3)]


def test_a_limit_is_kept_and_the_rest_comes_next(world: LogWorld, started: list[Query]) -> None:
    one, other = world.create("t", 2)
    one.write(90)
    other.write(10)
    stream = query(world, started, startingOffsets="earliest", maxOffsetsPerTrigger="50")
    assert stream.reader.getDefaultReadLimit() == ReadMaxRows(50)
    assert stream.batch() == [(0, 0, 45), (1, 0, 5)]
    assert stream.batch() == [(0, 45, 90), (1, 5, 10)]
    assert stream.batch() == []


def test_everything_is_returned_where_spark_requests_all(world: LogWorld, started: list[Query]) -> None:
    (log,) = world.create("t")
    log.write(90)
    stream = query(world, started, startingOffsets="earliest", maxOffsetsPerTrigger="50")
    end = stream.reader.latestOffset(stream.reader.initialOffset(), ALL)
    assert end["t"] == {"0": 90}


def test_a_batch_waits_until_there_is_enough_or_long_enough(world: LogWorld, started: list[Query]) -> None:
    (log,) = world.create("t")
    patient = query(
        world, started, minOffsetsPerTrigger="10", maxTriggerDelay="1h", startingOffsets="earliest"
    )
    hasty = query(
        world, started, minOffsetsPerTrigger="10", maxTriggerDelay="0ms", startingOffsets="earliest"
    )
    log.write(1)
    for stream in (patient, hasty):
        assert stream.batch() == [(0, 0, 1)], "nothing says how long it has waited before"
    log.write(5)
    assert patient.batch() == []
    assert hasty.batch() == [(0, 1, 6)]
    log.write(5)
    assert patient.batch() == [(0, 1, 11)]


def test_available_now_ends_at_the_first_end_even_if_more_is_written(
    world: LogWorld, started: list[Query]
) -> None:
    (log,) = world.create("t")
    log.write(5)
    stream = query(
        world, started, startingOffsets="earliest", maxOffsetsPerTrigger="3", minOffsetsPerTrigger="3"
    )
    stream.reader.prepareForTriggerAvailableNow()
    log.write(100)
    world.topics["t"][1].append(world.create("other")[0])
    world.topics["t"][1][1].write(7)
    assert [stream.batch(), stream.batch(), stream.batch()] == [[(0, 0, 3)], [(0, 3, 5)], []]


def test_an_idle_stream_asks_brokers_once_a_second_and_a_busy_one_whenever_spark_asks_it(
    world: LogWorld, started: list[Query]
) -> None:
    """It asked them as often as Spark asks it, which is 64 times a second."""
    (log,) = world.create("t")
    clock = FastClock()
    stream = query(world, started, clock=clock)
    assert stream.batch() == []

    def looks(until: float, *, another_is_busy: bool = False) -> int:
        before = world.asked.count("ListOffsets")
        while clock.now < until:
            assert stream.batch() == []
            clock.now += 1 / 64
            if another_is_busy:
                stream.reader.commit(stream.reader.initialOffset())
        return world.asked.count("ListOffsets") - before

    assert looks(until=8) < 100, "after a pause of a second, records are seen after an eighth of one"
    assert 50 <= looks(until=68) <= 61
    log.write(3)
    assert stream.batch() == [(0, 0, 3)]
    busy_since = clock.now
    assert looks(busy_since + 1, another_is_busy=True) == 64
    assert clock.now == busy_since + 1, "it holds up no other stream of the query"


def test_a_stream_that_reads_what_is_there_now_waits_for_nothing(
    world: LogWorld, started: list[Query]
) -> None:
    (log,) = world.create("t")
    clock = FastClock()
    stream = query(world, started, clock=clock, startingOffsets="earliest")
    assert stream.batch() == []
    clock.now += 60
    log.write(3)
    stream.reader.prepareForTriggerAvailableNow()
    assert [stream.batch(), stream.batch(), stream.batch()] == [[(0, 0, 3)], [], []]
    assert clock.now == 60


# --- what is lost -------------------------------------------------------------------------------


def test_another_subscription_is_not_a_lost_topic(
    world: LogWorld, started: list[Query], caplog: pytest.LogCaptureFixture
) -> None:
    """It said that the topic of the checkpoint no longer exists. Kafka's source reports a loss too; with
    failOnDataLoss=false both go on, and read what is new from its first record."""
    world.create("t")[0].write(5)
    world.create("other", topic_id="of other")[0].write(3)
    stream = query(world, started, startingOffsets="earliest")
    assert stream.batch() == [(0, 0, 5)]
    why = r"^the checkpoint has read t-0, which subscribe = other leaves out: name it too, or give the query"
    stream.restart(subscribe="other")
    with pytest.raises(InvalidOption, match=why):
        stream.batch()
    with pytest.raises(InvalidOption, match=why):
        stream.repeat()
    stream.restart(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        assert stream.batch() == [(0, 0, 3)]
    assert "t-0, which subscribe = other leaves out; going on without it" in caplog.text
    assert stream.batch() == []


@pytest.mark.parametrize(
    "options",
    [
        {"assign": '{"t": [1]}', "subscribe": ""},
        {"subscribePattern": "x.*", "subscribe": ""},
        {"subscribe": "x,y"},
    ],
)
def test_any_option_that_leaves_out_what_was_read_is_named(
    world: LogWorld, started: list[Query], options: dict[str, str]
) -> None:
    world.create("t", 2)[0].write(5)
    stream = query(world, started, startingOffsets="earliest")
    stream.batch()
    stream.restart(**options)
    name, text = next((name, text) for name, text in options.items() if text)
    with pytest.raises(InvalidOption, match=re.escape(f"which {name} = {text} leaves out")):
        stream.batch()


def test_offsets_are_kept_with_the_epoch_of_the_record_before_each(
    world: LogWorld, started: list[Query]
) -> None:
    """Also in the middle of a log that has had many leaders; no broker is asked while none is new."""
    log, other = world.create("t", 2)
    for epoch in (1, 2, 5, 9):
        log.epoch = epoch
        log.write(5)
    other.write(2)
    stream = query(world, started, startingOffsets="earliest", maxOffsetsPerTrigger="8")
    epochs = []
    while stream.batch():
        epochs.append([stream.written[-1]["t"]["0"], stream.written[-1]["@epochs"]["t"]["0"]])
    assert epochs == [[7, 2], [14, 5], [20, 9]]
    world.asked.clear()
    log.write(3)
    assert stream.batch() == [(0, 20, 23)]
    assert stream.written[-1]["@epochs"] == {"t": {"0": 9, "1": 1}}
    assert "EpochEnds" not in world.asked


@pytest.mark.parametrize("stopped", [False, True])
def test_a_log_that_was_cut_and_has_grown_again_is_an_error_or_read_from_there(
    world: LogWorld, started: list[Query], stopped: bool
) -> None:
    """Its end says nothing: other records have the offsets of those that were read."""
    (log,) = world.create("t")
    log.write(5)
    log.write(5)
    stream = query(world, started, startingOffsets="earliest")
    assert stream.batch() == [(0, 0, 10)]
    del log.batches[1:]
    log.lead(2)
    log.write(20)
    if stopped:
        stream.restart()
    with pytest.raises(DataLost, match=r"^t-0 has lost offsets 5 to 9: an election with a loss has cut the"):
        stream.batch()
    with pytest.raises(DataLost, match=r"^t-0 has lost offsets 5 to 9"):
        stream.repeat()
    stream.restart(failOnDataLoss="false")
    assert stream.batch(fails=True) == [(0, 5, 25)]
    stream.restart()
    assert stream.repeat() == [(0, 5, 25)], "the checkpoint has where the batch begins"
    assert stream.batch() == []


def test_a_cut_log_that_ends_where_it_did_is_read_again_from_the_cut(
    world: LogWorld, started: list[Query]
) -> None:
    (log,) = world.create("t")
    log.write(5)
    log.write(5)
    stream = query(world, started, startingOffsets="earliest", failOnDataLoss="false")
    stream.batch()
    del log.batches[1:]
    log.lead(2)
    log.write(5)
    assert stream.batch() == [(0, 5, 10)]
    assert stream.batch() == []


def test_new_leaders_and_deleted_records_cut_nothing(world: LogWorld, started: list[Query]) -> None:
    (log,) = world.create("t")
    log.write(5)
    stream = query(world, started, startingOffsets="earliest")
    assert stream.batch() == [(0, 0, 5)]
    log.lead(2)
    assert stream.batch() == []
    log.write(5)
    log.forget(5)
    assert stream.batch() == [(0, 5, 10)]
    log.lead(1)
    stream.restart()
    log.write(1)
    log.forget(10)
    assert stream.batch() == [(0, 10, 11)]


def test_a_checkpoint_without_ids_and_epochs_is_read_as_before(world: LogWorld, started: list[Query]) -> None:
    world.create("t")[0].write(9)
    stream = query(world, started)
    stream.offset = {"t": {"0": 4}}
    assert stream.batch() == [(0, 4, 9)]
    assert stream.written == [{"t": {"0": 9}, "@ids": {"t": "first"}, "@epochs": {"t": {"0": 1}}}]


def test_a_topic_that_is_gone_is_an_error_or_left_out(
    world: LogWorld, started: list[Query], caplog: pytest.LogCaptureFixture
) -> None:
    world.create("t")[0].write(5)
    world.create("other")[0].write(1)
    stream = query(world, started, subscribe="t,other", startingOffsets="earliest")
    stream.batch()
    del world.topics["t"]
    stream.restart()
    with pytest.raises(DataLost, match=r"^t-0 has lost from offset 5 on: the topic no longer exists"):
        stream.batch()
    stream.restart(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        assert stream.batch() == []
    assert "t-0 has lost" in caplog.text
    world.topics["other"][1][0].write(2)
    assert stream.batch() == [(0, 1, 3)]


def test_a_recreated_topic_is_an_error_or_is_read_from_its_begin(
    world: LogWorld, started: list[Query]
) -> None:
    world.create("t")[0].write(5)
    stream = query(world, started, startingOffsets="earliest")
    stream.batch()
    world.create("t", topic_id="second", epoch=7)[0].write(9)
    stream.restart()
    with pytest.raises(DataLost, match="another one has its name now"):
        stream.batch()
    stream.restart(failOnDataLoss="false")
    assert stream.batch() == [(0, 0, 9)]
    assert stream.batch() == []


def test_a_log_that_was_truncated_is_an_error_or_read_from_its_end(
    world: LogWorld, started: list[Query]
) -> None:
    (log,) = world.create("t")
    for _ in range(2):
        log.write(5)
    stream = query(world, started, startingOffsets="earliest")
    stream.batch()
    del log.batches[1:]
    with pytest.raises(DataLost, match=r"^t-0 has lost offsets 5 to 9: the log ends at offset 5 now"):
        stream.batch()
    stream.restart(failOnDataLoss="false")
    assert stream.batch() == []
    log.write(2)
    assert stream.batch() == [(0, 5, 7)]


def test_records_deleted_by_retention_fail_the_query_or_are_left_out(
    world: LogWorld, started: list[Query]
) -> None:
    (log,) = world.create("t")
    stream = query(world, started, startingOffsets="earliest")
    stream.reader.initialOffset()
    for _ in range(3):
        log.write(10)
    log.forget(20)
    with pytest.raises(DataLost, match="t-0 has lost offsets 0 to 19: the log starts at offset 20"):
        stream.batch()
    stream.written.clear()
    stream.restart(failOnDataLoss="false")
    assert stream.batch() == [(0, 20, 30)]


def test_a_topic_that_never_existed_is_reported_as_missing(world: LogWorld, started: list[Query]) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="there is no topic 't': create it first"):
        query(world, started).batch()


# --- tasks and groups ---------------------------------------------------------------------------


def test_batches_are_cut_into_tasks_that_know_their_topic(world: LogWorld, started: list[Query]) -> None:
    (log,) = world.create("t")
    log.write(10)
    stream = query(world, started, startingOffsets="earliest", minPartitions="2")
    start = stream.reader.initialOffset()
    planned = stream.reader.partitions(start, stream.reader.latestOffset(start, ALL))
    assert [part.value for part in planned] == [
        OffsetRange("t", 0, 0, 5, "first"),
        OffsetRange("t", 0, 5, 10, "first"),
    ]


def test_an_unreachable_group_costs_only_a_warning(
    world: LogWorld, started: list[Query], caplog: pytest.LogCaptureFixture
) -> None:
    world.create("t")[0].write(3)
    stream = query(world, started, commit_s_max=0.2, startingOffsets="earliest", commitGroup="lag")
    stream.batch()
    world.dead |= {1, 2}
    with caplog.at_level(logging.WARNING):
        stream.reader.commit(stream.offset or {})
    assert "commitGroup = lag: a batch's end was not committed" in caplog.text
