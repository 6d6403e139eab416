"""What `topic describe` and `status` say about replicas that are behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.cli.cluster.partitions import (
    FILTERS,
    partition_rows,
    partition_table,
    summary,
    summary_line,
    with_any,
)
from strandline.client.admin.topics import Condition, PartitionDescription, TopicDescription
from strandline.ids import NO_BROKER, TopicId
from strandline.report.text.sizes import size
from strandline.vocabulary.log import ReplicaProgress

LEADER = ReplicaProgress(1, True, True, log_end_offset=20, lag=0, lag_bytes=0, lag_ms=0)
LATE = ReplicaProgress(2, False, True, log_end_offset=8, lag=12, lag_bytes=4_100, lag_ms=3_000)
AWAY = ReplicaProgress(3, False, False, lag_ms=61_000)


def topic(*progress: ReplicaProgress, conditions: tuple[Condition, ...] = ()) -> TopicDescription:
    one = PartitionDescription(0, 1, 5, (1, 2, 3), (1,), 20, 20, frozenset(conditions), 9_000, progress)
    return TopicDescription("orders", TopicId("t"), {}, (one,))


UNASKED = TopicDescription(
    "gone", TopicId("g"), {}, (PartitionDescription(0, NO_BROKER, 5, (1,), (1,), None, None),)
)


def test_a_table_names_the_replicas_that_are_behind_and_by_how_much() -> None:
    (row,) = partition_table(topic(LEADER, LATE, AWAY))
    assert row[-1] == (
        "2: 12 offsets, 4.1 kB, 3.0 s, catching up; 3: nothing known of it, 1 min 1 s, not fetching"
    )
    refills = replace(LATE, bytes_per_s=1_100_000, ms_left=5_300)
    assert partition_table(topic(LEADER, refills))[0][-1] == (
        "2: 12 offsets, 4.1 kB, 3.0 s, catching up, 1.1 MB/s, about 5.3 s"
    )
    assert partition_table(topic(LEADER))[0][-1] == "none"
    assert partition_table(UNASKED)[0][-1] is None


def test_a_json_row_has_every_replica_with_null_for_what_is_unknown() -> None:
    (row,) = partition_rows(topic(LEADER, AWAY, conditions=(Condition.UNDER_REPLICATED,)))
    assert row["conditions"] == ["under_replicated"]
    assert [(each["broker"], each["lag"], each["lag_ms"]) for each in row["progress"]] == [
        (1, 0, 0),
        (3, None, 61_000),
    ]
    assert partition_rows(UNASKED)[0]["progress"] is None


def test_the_summary_has_the_sums_and_the_replica_that_is_behind_for_the_longest_time() -> None:
    found = summary([topic(LEADER, LATE, AWAY, conditions=(Condition.UNDER_REPLICATED,)), UNASKED])
    assert (found["partitions"], found["under_replicated"], found["leaderless"]) == (2, 1, 0)
    assert (found["lag"], found["lag_bytes"], found["unknown"]) == (12, 4_100, 1)
    assert (found["worst"]["topic"], found["worst"]["broker"]) == ("orders", 3)
    assert summary_line(found) == (
        "2 partitions: 1 under-replicated; replicas are behind by 12 offsets, 4.1 kB in all, 1 of unknown "
        "lag, longest that of orders-0 on broker 3: 1 min 1 s"
    )


def test_a_healthy_cluster_is_summed_up_in_a_few_words() -> None:
    assert summary_line(summary([topic(LEADER)])) == "1 partitions: all led and fully replicated"


def test_partitions_are_selected_by_any_of_the_conditions() -> None:
    """Topics without such a partition are left out."""
    numbers = {0: (), 1: (Condition.LEADERLESS,), 2: (Condition.AT_MIN_ISR, Condition.UNDER_REPLICATED)}
    partitions = [
        replace(topic(conditions=held).partitions[0], partition=number) for number, held in numbers.items()
    ]
    mixed = replace(topic(), partitions=tuple(partitions))

    def selected(*wanted: str) -> list[list[int]]:
        return [[each.partition for each in found.partitions] for found in with_any([mixed, UNASKED], wanted)]

    assert selected("leaderless") == [[1]]
    assert selected("leaderless", "at_min_isr") == [[1, 2]]
    assert selected("below_min_isr") == []


def test_there_is_an_option_for_each_condition() -> None:
    assert set(FILTERS) == {condition.value for condition in Condition}


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1_000, "1.0 kB"), (999_960, "1.0 MB"), (5 * 10**15, "5000.0 TB")],
)
def test_sizes_are_read_by_people(count: int, text: str) -> None:
    assert size(count) == text
