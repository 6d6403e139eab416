"""What is wrong with a cluster, in sentences, with the moments at which it began."""

from __future__ import annotations

from dataclasses import replace

from strandline.console.core.groups.lag import Sample
from strandline.console.core.overview.troubles import LISTED_MAX, Sights, all_keys, troubles
from strandline.console.core.seen import Seen
from strandline.console.core.timeline.all_rows import Rows
from strandline.console.core.timeline.places import Source, pack
from strandline.ids import NO_BROKER, TopicId, TopicPartition
from strandline.vocabulary.admin import BrokerDescription, OngoingReassignment
from strandline.vocabulary.metadata import Endpoint, PartitionMetadata, TopicMetadata

NOW_MS = 1_000_000
ENDS = {broker: Endpoint(broker, "127.0.0.1", 9_000 + broker) for broker in (1, 2, 3)}
CONFIG = {"min.insync.replicas": "2"}


def partition(number: int, leader: int = 1, isr: tuple[int, ...] = (1, 2, 3)) -> PartitionMetadata:
    return PartitionMetadata(number, leader, 7, (1, 2, 3), isr)


def seen(*partitions: PartitionMetadata, alive: tuple[int, ...] = (1, 2, 3)) -> Seen:
    topic = TopicMetadata("orders", TopicId("id"), partitions, CONFIG)
    return Seen("cluster", tuple(ENDS[each] for each in alive), (topic,), NOW_MS)


def described(broker: int, **given: int) -> BrokerDescription:
    queued, oldest_ms = given.get("queued", 0), given.get("oldest_ms", 0)
    return BrokerDescription(ENDS[broker], 1, False, queued, oldest_ms, bool(given.get("alive", 1)))


def said(state: Seen, rows: Rows | None = None, sights: Sights | None = None) -> list[str]:
    return [each.sentence for each in troubles(state, rows or Rows(), {}, sights or Sights(), NOW_MS)]


def test_a_cluster_that_is_well_has_no_trouble() -> None:
    assert said(seen(partition(0), partition(1))) == []


def test_a_broker_that_is_gone_explains_what_its_partitions_lack() -> None:
    state = seen(partition(0, isr=(1, 3)), partition(1, leader=3, isr=(1, 3)), alive=(1, 3))
    assert said(state) == [
        "Broker 2 is away. It has 2 replicas.",
        "orders-0, orders-1 have fewer replicas in sync than assigned; broker 2 is away.",
    ]


def test_the_worst_comes_first_and_a_partition_counts_once() -> None:
    state = seen(
        partition(0, NO_BROKER, (2,)), partition(1, isr=(1,)), partition(2, isr=(1, 3)), alive=(1, 3)
    )
    assert said(state) == [
        "orders-0 has no leader; broker 2 is away. It can be neither read nor written.",
        "orders-1 has fewer replicas in sync than min.insync.replicas; broker 2 is away. It takes no records "
        "with acks=all.",
        "Broker 2 is away. It has 3 replicas.",
        "orders-2 has fewer replicas in sync than assigned; broker 2 is away.",
    ]


def test_many_partitions_are_counted_and_the_first_are_listed() -> None:
    state = seen(*(partition(number, isr=(1, 2)) for number in range(200)))
    (found,) = troubles(state, Rows(), {}, Sights(), NOW_MS)
    assert (
        found.sentence
        == "orders-0, orders-1, orders-10 and 197 more have fewer replicas in sync than assigned."
    )
    assert (len(found.subjects), found.more) == (LISTED_MAX, 200 - LISTED_MAX)


def test_a_trouble_began_with_the_event_that_says_so() -> None:
    """The ISR shrank twice: it is short since the first time. The link leads to that moment."""
    rows = Rows()
    row = rows.partition("orders", 0)
    assert row is not None
    for at_ms, isr in ((100_000, (1, 2, 3)), (200_000, (1, 2)), (300_000, (1, 2, 3)), (400_000, (1, 3))):
        row.isr.add(at_ms, isr, 1, at_ms)
    row.isr.add(500_000, (1,), pack(Source.STATE, 3, 17), 500_000)
    under, below = seen(partition(0, isr=(1, 3))), seen(partition(0, isr=(1,)))
    (found,) = troubles(below, rows, {}, Sights(), NOW_MS)
    assert found.since_ms == 500_000
    assert (
        found.link
        == "/timeline?rows=partition&from=470000&until=530000&topic=orders&partition=0&event=state%2F3%2F17"
    )
    row.isr.add(600_000, (1, 3), 1, 600_000)
    (found,) = troubles(under, rows, {}, Sights(), NOW_MS)
    assert found.since_ms == 400_000


def test_a_lost_leader_and_a_lost_broker_are_dated_by_events() -> None:
    rows = Rows()
    row, broker = rows.partition("orders", 0), rows.broker(2)
    assert row is not None and broker is not None
    for at_ms, leader in ((100_000, 2), (200_000, NO_BROKER)):
        row.leader.add(at_ms, leader, 1, at_ms)
    broker.alive.add(90_000, True, 1)
    broker.alive.add(190_000, False, pack(Source.SEEN, 0, 5))
    state = seen(partition(0, NO_BROKER, (2,)), alive=(1, 3))
    found = troubles(state, rows, {}, Sights(), NOW_MS)
    assert [(each.kind, each.since_ms) for each in found] == [("leaderless", 200_000), ("away", 190_000)]
    assert [each.link.split("event=")[1] for each in found] == ["state%2F0%2F1", "seen%2F5"]


def test_without_an_event_a_trouble_is_dated_by_its_first_sight() -> None:
    sights, state = Sights(), seen(partition(0, isr=(1, 2)))
    for now_ms in (NOW_MS - 500, NOW_MS):
        sights.note(all_keys(state), now_ms)
    assert [each.since_ms for each in troubles(state, Rows(), {}, sights, NOW_MS)] == [NOW_MS - 500]
    sights.note(all_keys(seen(partition(0))), NOW_MS)
    sights.note(all_keys(state), NOW_MS + 500)
    assert [each.since_ms for each in troubles(state, Rows(), {}, sights, NOW_MS)] == [NOW_MS + 500]


def test_first_sights_are_noted_beyond_those_that_are_listed() -> None:
    sights, state = Sights(), seen(*(partition(number, isr=(1, 2)) for number in range(LISTED_MAX + 10)))
    sights.note(all_keys(state), NOW_MS - 500)
    (found,) = troubles(state, Rows(), {}, sights, NOW_MS)
    assert (found.since_ms, found.more) == (NOW_MS - 500, 10)
    assert {each.since_ms for each in found.subjects} == {NOW_MS - 500}


def test_replicas_that_a_move_adds_are_not_missed_while_they_are_copied() -> None:
    name = TopicPartition("orders", 0)
    move = OngoingReassignment(name, (1, 2), (1, 2, 3), (1, 2), 0, False)
    moving = replace(
        seen(partition(0, isr=(1, 2))), moves=(replace(move, original=(1, 2), replicas=(1, 2, 3)),)
    )
    assert said(moving) == []


def test_moves_that_are_overdue_or_cannot_end() -> None:
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    late = OngoingReassignment(first, (1, 2, 3), (1, 2, 3), (1, 2, 3), 0, False, NOW_MS - 5_000)
    stuck = OngoingReassignment(second, (1, 2, 3), (1, 2, 4), (1, 2, 3), 0, False)
    state = replace(seen(partition(0), partition(1)), moves=(late, stuck))
    found = troubles(state, Rows(), {}, Sights(), NOW_MS)
    assert [each.sentence for each in found] == [
        "orders-0 moves to brokers 1, 2, 3, and is overdue.",
        "orders-1 moves to brokers 1, 2, 4, but broker 4 is away: it cannot end.",
    ]
    assert found[0].since_ms == NOW_MS - 5_000


def test_a_queue_is_a_backlog_once_its_oldest_request_has_waited() -> None:
    fresh = replace(seen(partition(0)), described=(described(2, queued=4, oldest_ms=NOW_MS - 100),))
    old = replace(seen(partition(0)), described=(described(2, queued=4, oldest_ms=NOW_MS - 60_000),))
    assert (said(fresh), said(old)) == ([], ["4 state changes wait for broker 2."])


def test_those_who_do_not_answer_are_named_with_the_reason() -> None:
    state = replace(seen(partition(0)), problem="connection refused", controller_problem="none is active")
    first, second = said(state)
    assert first == "The cluster cannot be read: connection refused."
    assert "no replica moves. none is active" in second


def samples(*lags: int | None) -> list[Sample]:
    """One sample in 30 s."""
    return [Sample(30_000 * number, lag, partitions=1) for number, lag in enumerate(lags)]


def test_a_lag_that_grows_without_a_break_is_told_and_a_burst_is_not() -> None:
    lags = {
        "slow": samples(5, 0, 10, 20, 40),
        "burst": samples(0, 0, 500),
        "falls": samples(90, 80, 95, 60),
        "unknown": samples(1, 2, None),
        "new": [],
    }
    found = troubles(seen(partition(0)), Rows(), lags, Sights(), NOW_MS)
    assert [each.sentence for each in found] == [
        "Group slow is 40 records behind, 40 more than 1 min 30 s ago."
    ]
    assert (found[0].since_ms, found[0].link) == (30_000, "/groups/slow")


def test_groups_that_fall_behind_together_are_one_line_and_the_slowest_is_named() -> None:
    lags = {f"group-{number}": samples(0, 10, 20, 30 + number) for number in range(3)}
    (found,) = troubles(seen(partition(0)), Rows(), lags, Sights(), NOW_MS)
    assert found.sentence == (
        "Group group-2 is 32 records behind, 32 more than 1 min 30 s ago. "
        "2 other groups fall further behind as well."
    )
    assert [each.name for each in found.subjects] == ["group-2", "group-1", "group-0"]
