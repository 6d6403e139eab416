"""Topics: the list, the config, rates, and what changes would do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from strandline.client.admin.topics import TopicDescription, described
from strandline.config.limits import MIB
from strandline.console.core.topics import effects, moves
from strandline.console.core.topics.config import Source, config_rows, words_of
from strandline.console.core.topics.listing import Only, Sort, Wanted, listing
from strandline.console.core.topics.partitions import partition_rows
from strandline.console.core.topics.rates import SPAN_MS, Rates, Sample
from strandline.errors import InvalidConfig, InvalidPartitions, InvalidRequest
from strandline.ids import TopicId, TopicPartition
from strandline.vocabulary.admin import BalancePlan
from strandline.vocabulary.log import DescribedReplicas, ReplicaProgress
from strandline.vocabulary.metadata import PartitionMetadata, TopicMetadata

ALIVE = (1, 2, 3)
NAME = TopicPartition("orders", 0)


def topic(
    name: str = "orders",
    partitions: int = 1,
    *,
    isr: tuple[int, ...] = (1, 2, 3),
    leader: int = 1,
    config: dict[str, str] | None = None,
) -> TopicMetadata:
    made = tuple(PartitionMetadata(number, leader, 7, (1, 2, 3), isr) for number in range(partitions))
    return TopicMetadata(name, TopicId("a" * 32), made, config or {})


def description(size_bytes: int = 0, of: TopicMetadata | None = None) -> TopicDescription:
    answer = DescribedReplicas(NAME, size_bytes=size_bytes, log_end_offset=5, high_watermark=5, min_insync=2)
    return described(of or topic(), ALIVE, {NAME: answer})


# --- the list -----------------------------------------------------------------------------------


def test_the_list_is_searched_filtered_sorted_and_cut() -> None:
    topics = [
        topic("b", 3),
        topic("a"),
        topic("__state_changes"),
        topic("ill", isr=(1,)),
        topic("gone", leader=-1),
    ]

    def names(wanted: Wanted, rows_max: int = 10) -> list[str]:
        return [row.topic.name for row in listing(topics, ALIVE, wanted, rows_max).page.items]

    assert names(Wanted()) == ["a", "b", "gone", "ill"]
    assert listing(topics, ALIVE, Wanted(), 10).hidden == 1
    assert names(Wanted(internal=True))[0] == "__state_changes"
    assert names(Wanted(text="LL")) == ["ill"]
    assert names(Wanted(sort=Sort.PARTITIONS))[0] == "b"
    assert names(Wanted(sort=Sort.PROBLEMS))[:2] == ["gone", "ill"]
    assert names(Wanted(only=Only.LEADERLESS)) == ["gone"]
    assert names(Wanted(only=Only.BELOW_MIN_ISR)) == ["ill"]
    assert names(Wanted(only=Only.PROBLEMS)) == ["gone", "ill"]
    assert names(Wanted(page=2), 3) == ["ill"] and names(Wanted(page=9), 3) == ["ill"]


# --- the config ---------------------------------------------------------------------------------


def test_each_setting_says_where_its_value_is_from() -> None:
    rows = {row.name: row for row in config_rows({"retention.ms": "1000", "later.setting": "x"}, 3)}
    assert rows["retention.ms"].source is Source.TOPIC and rows["retention.ms"].default == "604800000"
    assert rows["min.insync.replicas"].value == "2" and rows["min.insync.replicas"].source is Source.REPLICAS
    assert rows["segment.bytes"].source is Source.DEFAULT
    assert rows["cleanup.policy"].allowed == "delete or compact or compact,delete or delete,compact"
    assert rows["later.setting"].is_set and rows["later.setting"].default == "not known here"
    assert list(rows) == sorted(rows)
    one = {row.name: row for row in config_rows({}, 1)}
    assert one["min.insync.replicas"].value == "1"


def test_values_are_said_for_people() -> None:
    assert words_of("flush.ms", str(2**63 - 1)) == "never"
    assert words_of("retention.bytes", "-1") == "no limit"
    assert words_of("segment.bytes", "268435456") == "268.4 MB"
    assert words_of("cleanup.policy", "delete") == ""


# --- rates --------------------------------------------------------------------------------------


def test_a_rate_comes_from_the_last_seconds() -> None:
    rates = Rates()
    assert rates.of(NAME) is None
    rates.note(NAME, Sample(0, 100, 1_000))
    rates.note(NAME, Sample(100, 150, 1_500))
    assert rates.of(NAME) is None, "two looks within a moment are one"
    rates.note(NAME, Sample(2_000, 300, 3_000))
    rate = rates.of(NAME)
    assert rate is not None and (rate.records, rate.bytes) == (100, 1_000)
    rates.note(NAME, Sample(2_000 + SPAN_MS, 300, 100))
    rate = rates.of(NAME)
    assert rate is not None and (rate.records, rate.bytes) == (0, 0), "bytes that were deleted are no rate"
    rates.note(NAME, Sample(40_000, 3, 30))
    assert rates.of(NAME) is None, "a log that ends earlier is another one"
    assert rates.of_all([NAME]) is None and rates.of_all([]) is None


def test_a_topic_that_was_made_anew_has_no_rate_yet() -> None:
    """It may have more records than the one before had."""
    rates = Rates()

    def told(at_ms: int, end: int, topic_id: str) -> None:
        answer = DescribedReplicas(NAME, log_end_offset=end, size_bytes=end, topic_id=TopicId(topic_id))
        rates.take({NAME: answer}, at_ms)

    told(0, 100, "a")
    told(1_000, 5_000, "b")
    assert rates.of(NAME) is None
    told(2_000, 5_010, "b")
    rate = rates.of(NAME)
    assert rate is not None and rate.records == 10
    told(3_000, 5_030, "")  # by a broker of an earlier version
    rate = rates.of(NAME)
    assert rate is not None and rate.records == 15


# --- partitions ---------------------------------------------------------------------------------


def test_a_partition_shows_how_far_its_replicas_are() -> None:
    of = topic(isr=(1, 2))
    progress = (
        ReplicaProgress(1, in_sync=True, fetching=True, lag=0, lag_bytes=0, lag_ms=0),
        ReplicaProgress(2, in_sync=True, fetching=True, lag=1, lag_bytes=149, lag_ms=20),
        ReplicaProgress(3, fetching=True, lag=1_200, lag_bytes=4_100_000, lag_ms=12_000),
        ReplicaProgress(4, adding=True, fetching=True, lag=9, lag_bytes=90, ms_left=5_000),
    )
    answer = DescribedReplicas(NAME, None, 7, 90, 10, 95, 5_000, 2, progress)
    (row,) = partition_rows(of, of.partitions, (1, 2, 3, 4), {NAME: answer})
    assert [each.words for each in row.replicas] == [
        "leads",
        "in sync, 1 offset behind, 149 B",
        "catching up, 1,200 offsets behind, 4.1 MB, for 12.0 s",
        "is added, 9 offsets behind, 90 B, 5.0 s left",
    ]
    assert (row.start, row.high_watermark, row.end, row.records, row.moves) == (10, 90, 95, 80, True)
    (unasked,) = partition_rows(of, of.partitions, (1, 2), {})
    assert [each.words for each in unasked.replicas] == ["in sync", "in sync", "not alive"]
    assert unasked.end is None and unasked.records is None
    another = replace(answer, topic_id=TopicId("b" * 32))
    assert partition_rows(of, of.partitions, (1, 2), {NAME: another}) == [unasked]
    (gone,) = partition_rows(topic(leader=-1), topic(leader=-1).partitions, (1,), {})
    assert gone.leader is None


# --- effects ------------------------------------------------------------------------------------


def test_tighter_retention_and_stricter_isr_are_warned_of() -> None:
    of = description(of=topic(isr=(1, 2)))
    shorter = effects.alteration(of, {"retention.ms": "1000"}, ())
    assert "do not come back" in shorter.warnings[0]
    assert effects.alteration(of, {"retention.ms": "-1"}, ()).warnings == ()
    strict = effects.alteration(of, {"min.insync.replicas": "3"}, ())
    assert "1 partition of it has fewer than 3 replicas in sync now" in strict.warnings[0]
    unclean = effects.alteration(of, {"unclean.leader.election.enable": "true"}, ())
    assert "lost" in unclean.warnings[0]
    assert (
        "without a key are refused" in effects.alteration(of, {"cleanup.policy": "compact"}, ()).warnings[0]
    )


def test_a_change_that_changes_nothing_is_refused() -> None:
    of = description(of=topic(config={"retention.ms": "5"}))
    with pytest.raises(InvalidRequest, match=r"retention\.ms=5 already"):
        effects.alteration(of, {"retention.ms": "5"}, ())
    with pytest.raises(InvalidConfig, match="has its default already"):
        effects.alteration(of, {}, ["segment.ms"])
    with pytest.raises(InvalidConfig, match="unknown topic config"):
        effects.alteration(of, {"no.such": "1"}, ())
    with pytest.raises(InvalidPartitions):
        effects.growth(of, 1)
    with pytest.raises(InvalidRequest, match="already"):
        moves.reassignment(of, of.partitions[0], (1, 2, 3), 0, None, ())
    with pytest.raises(InvalidRequest, match="evenly"):
        moves.balance(BalancePlan((), ()), 0)
    with pytest.raises(InvalidRequest, match="lead already"):
        moves.preferred_election(topic())


def test_what_a_move_copies_and_deletes_is_said() -> None:
    of = description(size_bytes=5 * MIB)
    effect = moves.reassignment(of, of.partitions[0], (4, 2, 5), 1_000_000, None, ("broker 5 is not alive",))
    said = " ".join(effect.sentences)
    assert "Brokers 4, 5 copy it: 10.5 MB, at most 1.0 MB a second" in said
    assert "With this limit it takes about 8.4 s" in said, "what is near the end is not held back"
    assert "brokers 1, 3 delete their replicas" in said
    assert "Broker 1 leads it now" in said
    assert effect.warnings == ("broker 5 is not alive",)
    small = description(size_bytes=MIB)
    effect = moves.reassignment(small, small.partitions[0], (4, 2, 3), 1, None, ())
    assert "so small that this limit hardly slows it down" in " ".join(effect.sentences)
    order = moves.reassignment(of, of.partitions[0], (3, 2, 1), 0, None, ())
    assert "Broker 3 becomes the preferred leader" in " ".join(order.sentences)


def test_a_move_to_a_single_replica_is_warned_of() -> None:
    of = description()
    effect = moves.reassignment(of, of.partitions[0], (2,), 0, None, ("broker 2 is not alive",))
    assert effect.warnings[0] == "broker 2 is not alive"
    assert "One replica remains: while broker 2 is away" in effect.warnings[1]


def test_one_of_a_thing_is_said_so() -> None:
    assert "are deleted with its 1 partition:" in effects.deletion(description(), {}).sentences[0]
    created = effects.creation("orders", 1, 1, {}, ALIVE)
    assert "has at least 1 replica in sync" in created.sentences[1]
    refused = effects.creation("orders", 1, 2, {"min.insync.replicas": "x"}, (1,))
    assert "at least x replicas in sync" in refused.sentences[1]
    assert "more replicas than the 1 broker alive" in refused.warnings[0]


def test_the_facts_of_a_deletion_are_not_its_records() -> None:
    before, after = (effects.deletion(description(size_bytes=size), {0: 0}) for size in (5, 50))
    assert before.fingerprint == after.fingerprint and before.typed == "orders"
    assert before.tables[0].rows[0] == ("0", "0 to 5", "5 B", "1")
