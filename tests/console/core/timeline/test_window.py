"""The window: what it keeps of two topics, within bounds, also if garbage stands in their records."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.console.core.timeline.drawing import draw
from strandline.console.core.timeline.gaps import Gaps
from strandline.console.core.timeline.journal import CHUNK_RECORDS, Record
from strandline.console.core.timeline.kept_rows import KeptRows
from strandline.console.core.timeline.places import Source, parse_id
from strandline.console.core.timeline.rows import GONE, GroupRow
from strandline.console.core.timeline.view import PARTS_MAX, View, matching
from strandline.console.core.window import Window
from strandline.ids import BrokerEpoch, TopicId
from strandline.vocabulary.admin import BrokerDescription
from strandline.vocabulary.metadata import Endpoint, PartitionMetadata, TopicMetadata
from tests.console.core.timeline.events import AT, change, elected, group_event

ALL = View("partition", AT - 1_000, AT + 100_000, 1_000)


def window_of(*records: Record, source: Source = Source.STATE) -> Window:
    window = Window()
    window.read(source, 0, records, AT + 50_000)
    return window


def drawn(window: Window, view: View = ALL) -> list[dict[str, Any]]:
    gaps = Gaps(window.rows, view)
    return [draw(row, view, gaps) for row in matching(window.rows, view) if row is not None]


def lane(window: Window, kind: str, view: View = ALL) -> list[dict[str, Any]]:
    """The items of a lane of the only row."""
    (row,) = drawn(window, view)
    return next((lane["items"] for lane in row["lanes"] if lane["kind"] == kind), [])


# --- partitions -----------------------------------------------------------------------------------


def test_bars_say_who_led_in_which_epoch_and_from_when() -> None:
    window = window_of(
        elected(0, 1, 6, AT, isr=[1, 2, 3]),
        change(1, "resign-leader", AT + 9_000, epoch=6, broker=1, isr=[1, 2, 3]),
        elected(2, 2, 7, AT + 10_000, isr=[2, 3]),
    )
    bars = [
        (each["from"] - AT, each["until"], each["broker"], each["epoch"]) for each in lane(window, "leader")
    ]
    assert bars == [
        (0, AT + 9_000, 1, 6),
        (9_000, AT + 10_000, GONE, 6),
        (10_000, None, 2, 7),
    ]
    assert [each["event"] for each in lane(window, "leader")] == ["state/0/0", "state/0/1", "state/0/2"]
    assert [each["members"] for each in lane(window, "isr")] == [[1, 2, 3], [1, 2, 3], [2, 3]]


def test_a_request_is_one_span_in_whatever_order_its_steps_are_read() -> None:
    steps = [
        change(0, "start-replica", AT, id="r", state="requested", requester=-1),
        change(1, "start-replica", AT + 1_000, id="r", state="received", requester=-1),
        change(2, "start-replica", AT + 3_000, id="r", state="failed", requester=-1, reason="disk"),
    ]
    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        window = window_of(*(steps[each] for each in order))
        (item,) = lane(window, "request")
        assert (item["from"], item["received"], item["until"]) == (AT, AT + 1_000, AT + 3_000)
        assert item["state"] == "failed" and item["event"] == "state/0/2"
        rows = {kind: drawn(window, View(kind, AT - 1, AT + 9_000, 100)) for kind in ("broker", "request")}
        for kind, (row,) in rows.items():
            (shown,) = next(each["items"] for each in row["lanes"] if each["kind"] == "request")
            assert shown == (item if kind == "request" else {**item, "about": "orders-1"})


def test_what_is_drawn_as_one_says_what_it_stands_for() -> None:
    many = PARTS_MAX + 2
    window = window_of(
        *(change(n, "change-isr", AT + n, partition=n, left=[2], isr=[1, 3]) for n in range(3)),
        *(
            change(3 + n, "start-replica", AT, partition=0, state="requested", requester=-1)
            for n in range(many)
        ),
    )
    view = View("broker", AT - 1_000, AT + 99_000, 100, broker=2)
    (left,) = lane(window, "marks", view)
    assert (left["at"], left["last"], left["count"], left["event"]) == (AT, AT + 2, 3, None)
    assert [(each["at"], each["about"], each["event"]) for each in left["parts"]] == [
        (AT + n, f"orders-{n}", f"state/0/{n}") for n in range(3)
    ]
    (asked,) = lane(window, "request", View("broker", AT - 1_000, AT + 99_000, 100, broker=1))
    assert asked["merged"] == many
    assert [each["event"] for each in asked["parts"]] == [f"state/0/{3 + n}" for n in range(PARTS_MAX)]
    (coarse,) = lane(window, "request", replace(view, broker=1).coarse(50))
    assert coarse["merged"] == many and coarse["parts"] == []


def test_a_reassignment_begins_and_ends() -> None:
    window = window_of(
        change(
            0,
            "reassign-replicas",
            AT,
            id="m",
            state="requested",
            requester=-1,
            replicas=[4, 2, 3],
            reason="drain",
        ),
        change(1, "reassign-replicas", AT + 5_000, id="m", replicas=[4, 2, 3], isr=[4, 2, 3]),
    )
    (item,) = lane(window, "reassignment")
    assert (item["from"], item["until"], item["label"]) == (AT, AT + 5_000, "to 4,2,3 (drain)")


def test_losses_are_marks_of_the_partition_and_of_the_broker() -> None:
    window = window_of(
        elected(0, 2, 6, AT, unclean=True, first=10, end=12, lost=2),
        change(1, "truncate-log", AT + 1_000, broker=3, first=10, end=14, lost=2),
    )
    assert [each["kind"] for each in lane(window, "marks")] == ["unclean-election", "truncate-log"]
    brokers = drawn(window, View("broker", AT - 1, AT + 9_000, 10_000))
    marks = {
        row["name"]: [item["kind"] for each in row["lanes"] for item in each["items"]] for row in brokers
    }
    assert marks["broker 2"] == ["elected", "unclean-election"] and marks["broker 3"] == ["truncate-log"]


def test_a_size_of_the_isr_is_not_compared_with_the_replicas_of_another_time() -> None:
    window = window_of(
        elected(0, 1, 6, AT, isr=[1, 2, 3]),
        change(1, "reassign-replicas", AT + 50, id="m", state="requested", replicas=[1, 2]),
        change(2, "reassign-replicas", AT + 90, id="m", replicas=[1, 2], isr=[1, 2], epoch=6),
    )
    see_replicas(window, AT + 100, (1, 2))
    view = View("partition", AT, AT + 200, 1_000)
    assert [(each["size"], each["of"]) for each in lane(window, "isr", view)] == [(3, None), (2, 2)]


def test_a_size_of_the_isr_that_lasts_is_compared_with_the_replicas_of_now() -> None:
    cancelled = {"state": "superseded", "reason": "cancelled", "replicas": [1, 2, 3]}
    window = window_of(
        elected(0, 1, 6, AT, isr=[1, 2]),
        change(1, "reassign-replicas", AT + 50, id="m", state="requested", replicas=[1, 4]),
        change(2, "reassign-replicas", AT + 90, id="m", **cancelled),
    )
    see_replicas(window, AT + 100, (1, 2, 3), isr=(1, 2))
    assert [(each["size"], each["of"]) for each in lane(window, "isr")] == [(2, 3)]


def test_a_move_does_not_change_what_was_known_of_the_replicas_before_it() -> None:
    window = window_of(elected(0, 1, 6, AT, isr=[1]))
    see_replicas(window, AT + 10, (1, 2))
    moves = [
        change(1, "change-isr", AT + 40, epoch=6, isr=[1, 2]),
        change(2, "reassign-replicas", AT + 50, id="m", state="requested", replicas=[1, 2, 3]),
        change(
            3,
            "reassign-replicas",
            AT + 90,
            id="m",
            state="superseded",
            reason="cancelled",
            replicas=[1, 2, 3],
        ),
    ]
    window.read(Source.STATE, 0, moves, AT + 95)
    see_replicas(window, AT + 100, (1, 2))
    assert [(each["size"], each["of"]) for each in lane(window, "isr")] == [(1, 2), (2, 2)]
    window.read(Source.STATE, 0, [change(4, "change-isr", AT + 200, epoch=6, isr=[1])], AT + 200)
    assert [(each["size"], each["of"]) for each in lane(window, "isr")] == [(1, 2), (2, 2), (1, 2)]


def see_replicas(window: Window, at_ms: int, replicas: tuple[int, ...], isr: tuple[int, ...] = ()) -> None:
    partition = PartitionMetadata(1, 1, 6, replicas, isr or replicas)
    window.seen_topics((TopicMetadata("orders", TopicId("ab" * 16), (partition,)),), at_ms)


def test_what_began_before_the_view_has_its_true_beginning() -> None:
    view = View("partition", AT + 400, AT + 600, 100)
    (bar,) = lane(window_of(elected(0, 1, 6, AT)), "leader", view)
    assert (bar["from"], bar["event"]) == (AT, "state/0/0")


def test_a_repeated_record_is_there_once() -> None:
    again = [change(number, "truncate-log", AT, id="t", first=1, end=2) for number in (0, 1)]
    assert [each["count"] for each in lane(window_of(*again), "marks")] == [1]


@pytest.mark.parametrize("at_ms", [AT + 10**9, -1, 0, 2**62])
def test_an_event_of_a_wrong_clock_is_shown_when_it_was_written(at_ms: int) -> None:
    fields = json.loads(elected(0, 1, 6, AT).value)
    window = window_of(Record(0, AT, json.dumps({**fields, "at": at_ms}).encode()))
    assert [each["from"] for each in lane(window, "leader")] == [AT]
    assert window.newest_ms == AT


def test_a_partition_without_an_event_has_the_leader_that_was_seen() -> None:
    window = Window()
    partition = PartitionMetadata(1, 2, 7, (1, 2, 3), (2, 3))
    window.seen_topics((TopicMetadata("orders", TopicId("ab" * 16), (partition,)),), AT)
    (bar,) = lane(window, "leader")
    assert bar == {"from": None, "until": None, "broker": 2, "epoch": 7, "event": None}
    assert [each["of"] for each in lane(window, "isr")] == [3]
    window.read(Source.STATE, 0, [elected(5, 3, 8, AT + 10)], AT + 20)
    assert [each["broker"] for each in lane(window, "leader")] == [2, 3]
    window.seen_topics((), AT + 30_000)
    assert [each["until"] for each in lane(window, "leader")] == [AT + 10, AT + 30_000]
    window.read(Source.STATE, 0, [elected(6, 1, 9, AT + 40_000)], AT + 40_000)
    assert [each["broker"] for each in lane(window, "leader")] == [2, 3, 1], "the topic is there again"


def test_a_partition_that_is_gone_without_events_is_not_shown() -> None:
    window = Window()
    partition = PartitionMetadata(1, 2, 7, (1, 2, 3), (2, 3))
    window.seen_topics((TopicMetadata("orders", TopicId("t"), (partition,)),), AT)
    window.seen_topics((), AT + 30)
    assert not drawn(window)


def test_brokers_that_go_and_come_back_are_events_of_the_console() -> None:
    window = Window()

    def see(at_ms: int, *, alive: bool = True, drained: bool = False, controller: int = 101) -> None:
        endpoint = Endpoint(1, "b1", 9092)
        described = BrokerDescription(endpoint, BrokerEpoch(5), False, 0, alive=alive, drained=drained)
        window.seen_brokers([described], controller, at_ms)

    see(AT)
    see(AT + 1_000)
    assert window.count(Source.SEEN) == 0
    see(AT + 2_000, alive=False)
    see(AT + 3_000, drained=True, controller=102)
    view = View("broker", AT - 1_000, AT + 9_000, 1_000)
    alive = [(each["label"], each["event"]) for each in lane(window, "alive", view)]
    assert alive == [("alive", None), ("gone", "seen/0"), ("alive", "seen/1")]
    first = lane(window, "alive", view)[0]
    assert (first["from"], first["earlier"]) == (AT, True), "it was alive when it was seen first"
    assert [each["from"] for each in lane(window, "drain", view)] == [AT + 3_000]
    assert window.count(Source.SEEN) == 4


# --- groups ---------------------------------------------------------------------------------------


def group_window() -> Window:
    return window_of(
        group_event(0, "rebalance_started", AT, generation=6, reason="m2 joined", caused_by="m2"),
        group_event(1, "generation_started", AT + 100),
        group_event(2, "revoked", AT + 200, member="m1", partitions={"orders": [1]}),
        group_event(3, "generation_stable", AT + 300),
        group_event(4, "assigned", AT + 400, member="m2", partitions={"orders": [1]}),
        group_event(5, "task_learning", AT + 500, member="m1", task="counts-1", lag=900),
        group_event(6, "task_progress", AT + 700, member="m1", task="counts-1", lag=90, records_per_s=4.5),
        group_event(7, "member_left", AT + 900, member="m1", reason="session timeout"),
        source=Source.GROUP,
    )


def test_a_group_has_generations_and_what_each_member_owned() -> None:
    window, view = group_window(), View("group", AT - 100, AT + 2_000, 2_100)
    assert [(each["state"], each["generation"]) for each in lane(window, "generation", view)] == [
        ("rebalancing", 6),
        ("joined", 7),
        ("stable", 7),
    ]
    (row,) = drawn(window, view)
    owned = {
        each["member"]: [(item["from"], item["until"], item["partitions"]) for item in each["items"]]
        for each in row["lanes"]
        if each["kind"] == "owned"
    }
    assert owned == {"m1": [(None, AT + 200, "orders:1")], "m2": [(AT + 400, None, "orders:1")]}


def test_members_have_short_names_and_those_that_left_come_last() -> None:
    own = "-3bce0df4-29a5-6c79-636f-fe709fc45a8b"
    took = {"partitions": {"orders": [1]}}
    window = window_of(
        group_event(0, "assigned", AT, member=f"a{own}", **took),
        group_event(1, "task_learning", AT, member=f"a{own}", task="counts-0"),
        group_event(2, "assigned", AT + 1, member=f"b{own}", **took),
        group_event(3, "task_learning", AT + 1, member=f"b{own}", task="counts-1"),
        group_event(4, "member_left", AT + 900, member=f"a{own}"),
        source=Source.GROUP,
    )
    (row,) = drawn(window, View("group", AT - 100, AT + 2_000, 2_100))
    assert [(each["kind"], each["name"], each.get("task")) for each in row["lanes"]] == [
        ("owned", "b", None),
        ("owned", "a", None),
        ("learner", "b", "counts-1"),
        ("learner", "a", "counts-0"),
    ]
    assert row["lanes"][0]["member"] == f"b{own}"


def test_a_task_says_who_learns_it_and_how_far() -> None:
    (row,) = drawn(group_window(), View("task", AT - 100, AT + 2_000, 2_100))
    (learner,) = row["lanes"]
    assert row["id"] == "task/billing/counts-1" and learner["member"] == "m1"
    assert [(each["state"], each["lag"], each["until"]) for each in learner["items"]] == [
        ("learning", 900, AT + 700),
        ("learning", 90, AT + 900),
    ]
    assert learner["items"][1]["label"] == "learning, lag 90, 4 records/s"


# --- bounds ---------------------------------------------------------------------------------------


def test_the_oldest_events_are_dropped_and_what_they_led_to_stays() -> None:
    window = Window(events_kept=CHUNK_RECORDS)
    for number in range(4 * CHUNK_RECORDS):
        window.read(Source.STATE, 0, [elected(number, number % 3, number, AT + number)], AT + 10_000)
    assert window.count(Source.STATE) <= CHUNK_RECORDS
    kept_from = window.kept_from(Source.STATE)
    assert kept_from is not None and kept_from >= AT + 3 * CHUNK_RECORDS
    (row,) = window.rows.partitions
    assert len(row.leader) <= CHUNK_RECORDS + 1 and len(row.events) <= CHUNK_RECORDS + 1
    assert row.leader.value_at(kept_from) == (kept_from - AT) % 3
    assert window.found(parse_id("state/0/0")) is None
    assert window.room(Source.STATE) == 0, "what was dropped is not read back"


def test_requests_of_the_past_are_forgotten_everywhere() -> None:
    window = Window(events_kept=CHUNK_RECORDS)
    for number in range(4 * CHUNK_RECORDS):
        record = change(number, "start-replica", AT + number, id=f"r{number}", partition=number % 50)
        window.read(Source.STATE, 0, [record], AT + 10_000)
    assert len(window.rows.requests) <= CHUNK_RECORDS + 1
    assert len(window.rows.spans) <= CHUNK_RECORDS + 1
    (broker,) = window.rows.brokers
    assert len(broker.requests) <= CHUNK_RECORDS + 1


def test_groups_and_tasks_of_the_past_are_forgotten() -> None:
    window = Window(events_kept=CHUNK_RECORDS)
    for number in range(4 * CHUNK_RECORDS):
        task = f"t{number // 10}"
        record = group_event(
            number, "task_running", AT + number, group=f"g{number // 20}", member="m", task=task
        )
        window.read(Source.GROUP, 0, [record], AT + 10_000)
    assert len(window.rows.groups) <= CHUNK_RECORDS // 20 + 2
    assert len(window.rows.tasks) <= CHUNK_RECORDS // 10 + 4
    assert {task.id for group in window.rows.groups for task in group.tasks.values()} == {
        task.id for task in window.rows.tasks
    }


def test_rows_beyond_the_limit_are_counted() -> None:
    window = Window()
    window.rows.groups = KeptRows(GroupRow, most=2)
    for number in range(4):
        window.read(Source.GROUP, 0, [group_event(number, "member_joined", AT, group=f"g{number}")], AT)
    assert [row.name for row in window.rows.groups] == ["g0", "g1"] and window.rows.left_out == 2


def test_older_records_are_put_before_the_others() -> None:
    window = window_of(elected(10, 3, 8, AT + 100))
    window.read(Source.STATE, 0, [elected(8, 1, 6, AT), elected(9, 2, 7, AT + 50)], AT, older=True)
    assert [each["broker"] for each in lane(window, "leader")] == [1, 2, 3]
    assert window.kept_from(Source.STATE) == AT
    assert [window.found(parse_id(f"state/0/{each}")) is not None for each in (7, 8, 9, 10, 11)] == [
        False, True, True, True, False,
    ]  # fmt: skip


def test_another_topic_of_the_same_name_begins_empty() -> None:
    window = group_window()
    window.read(Source.STATE, 0, [elected(0, 1, 6, AT)], AT)
    window.forget(Source.STATE)
    assert not drawn(window) and window.kept_from(Source.STATE) is None
    assert drawn(window, View("group", AT - 100, AT + 2_000, 100))
    window.forget(Source.GROUP)
    assert not drawn(window, View("group", AT - 100, AT + 2_000, 100))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)
STATE_FIELDS = [*json.loads(change(0, "truncate-log", AT).value), "isr", "left", "reason", "requester", "by"]
GROUP_FIELDS = [*json.loads(group_event(0, "lost", AT).value), "member", "partitions", "task", "lag"]
KINDS = ["rebalance_started", "generation_stable", "assigned", "member_left", "task_progress", "task_new"]


@given(st.data())
def test_garbage_in_a_record_is_only_passed_over(data: st.DataObject) -> None:
    window = Window()
    changed = data.draw(st.dictionaries(st.sampled_from(STATE_FIELDS), JSON, max_size=3))
    state = {**json.loads(elected(0, 1, 6, AT).value), **changed}
    changed = data.draw(st.dictionaries(st.sampled_from(GROUP_FIELDS), JSON, max_size=3))
    group = {**json.loads(group_event(0, data.draw(st.sampled_from(KINDS)), AT).value), **changed}
    garbage = Record(1, AT, data.draw(st.binary()))
    window.read(Source.STATE, 0, [Record(0, AT, json.dumps(state).encode()), garbage], AT)
    window.read(Source.GROUP, 0, [Record(0, AT, json.dumps(group).encode())], AT)
    for rows in ("partition", "broker", "group", "task", "request"):
        json.dumps(drawn(window, View(rows, AT - 1_000, AT + 1_000, 100)))
