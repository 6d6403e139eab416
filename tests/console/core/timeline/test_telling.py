"""Every event as a plain sentence, and what belongs to it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strandline.console.core.timeline.explanation import explain, sentence
from strandline.console.core.timeline.journal import Record
from strandline.console.core.timeline.places import Source, parse_id
from strandline.console.core.window import Window, parsed
from strandline.ids import BrokerEpoch
from strandline.vocabulary.admin import BrokerDescription
from strandline.vocabulary.metadata import Endpoint
from tests.console.core.timeline.events import AT, change, elected, group_event


def said(record: Record, source: Source = Source.STATE) -> str:
    event = parsed(source, record.value)
    assert event is not None
    return sentence(event)


def explained(window: Window, name: str) -> dict[str, Any]:
    ref = parse_id(name)
    found = window.found(ref)
    assert found is not None
    answer = explain(window, ref, found[1], found[0])
    return json.loads(json.dumps(answer))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("command", "facts", "words"),
    [
        (
            "elect-leader",
            {"broker": 2, "epoch": 7, "reason": "broker 1 is gone"},
            "Broker 2 leads orders-1 at epoch 7: broker 1 is gone.",
        ),
        (
            "elect-leader",
            {"broker": 2, "epoch": 7, "reason": "asked for", "unclean": True, "first": 10, "lost": 2},
            "Broker 2 leads orders-1 at epoch 7 although it may lack committed records: asked for; "
            "2 committed records are lost from 10 on.",
        ),
        (
            "resign-leader",
            {"epoch": 7, "reason": "it stops"},
            "Broker 1 gave up the leadership of orders-1 at epoch 7: it stops.",
        ),
        (
            "change-isr",
            {"left": [3], "isr": [1, 2], "reason": "late"},
            "Broker 3 left the ISR of orders-1, as its leader, broker 1, decided: late; in sync are 1, 2.",
        ),
        (
            "change-isr",
            {"left": [3], "joined": [2, 4], "isr": [1, 2, 4]},
            "Broker 3 left and brokers 2, 4 joined the ISR of orders-1, as its leader, broker 1, decided; "
            "in sync are 1, 2, 4.",
        ),
        (
            "start-replica",
            {"state": "requested", "requester": -1, "reason": "topic created"},
            f"orders-1 was created (topic id {'ab' * 16}), and broker 1 asked to host it: topic created.",
        ),
        (
            "start-replica",
            {"state": "requested", "requester": -1, "reason": "config altered"},
            "The controller asked broker 1 to host orders-1 and follow its leader: config altered.",
        ),
        (
            "delete-replica",
            {"state": "requested", "requester": -1, "reason": "topic deleted"},
            f"orders-1 was deleted (topic id {'ab' * 16}), and broker 1 asked to delete its replica: "
            "topic deleted.",
        ),
        (
            "close-replica",
            {"state": "received", "requester": 2},
            "Broker 1 took up the request to stop following orders-1; the log stays.",
        ),
        ("delete-replica", {"requester": -1}, "Broker 1 has deleted its replica of orders-1."),
        (
            "start-replica",
            {"state": "failed", "requester": -1, "reason": "its disk is full"},
            "The request to broker 1 to host orders-1 and follow its leader failed: its disk is full.",
        ),
        (
            "start-replica",
            {"state": "superseded", "requester": -1, "reason": "epoch 9"},
            "The request to broker 1 to host orders-1 and follow its leader was superseded: epoch 9.",
        ),
        (
            "reassign-replicas",
            {"state": "requested", "replicas": [4, 2], "reason": "drain"},
            "The replicas of orders-1 will be on brokers 4, 2: drain.",
        ),
        (
            "reassign-replicas",
            {"replicas": [4, 2], "isr": [4, 2]},
            "The replicas of orders-1 are on brokers 4, 2 now; in sync are 4, 2.",
        ),
        (
            "reassign-replicas",
            {"state": "superseded", "replicas": [1, 2], "reason": "cancelled"},
            "The reassignment of orders-1 was cancelled: its replicas are on brokers 1, 2.",
        ),
        (
            "reassignment-overdue",
            {"state": "failed", "replicas": [4, 2], "reason": "after 10 s"},
            "The reassignment of orders-1 to 4, 2 is overdue: after 10 s.",
        ),
        (
            "truncate-log",
            {"first": 10, "end": 14, "lost": 1},
            "Broker 1 cut its log of orders-1 from 10 to 14; 1 committed record is lost from 10 on.",
        ),
        (
            "truncate-log",
            {"state": "failed", "first": 10, "end": 14},
            "Broker 1 refused to cut its log of orders-1 from 10 to 14.",
        ),
        ("delete-stray", {}, "Broker 1 removed a replica of orders-1 that is not assigned to it."),
    ],
)
def test_a_state_change_is_one_sentence(command: str, facts: dict[str, Any], words: str) -> None:
    assert said(change(0, command, AT, **facts)) == words


@pytest.mark.parametrize(
    ("event", "facts", "words"),
    [
        (
            "rebalance_started",
            {"reason": "m2 joined", "caused_by": "m2"},
            "Group billing rebalances because of m2: m2 joined.",
        ),
        ("generation_started", {}, "Generation 7 of group billing has begun: all its members have joined."),
        ("generation_stable", {}, "Generation 7 of group billing has its assignment."),
        ("generation_ended", {}, "Generation 7 of group billing has ended."),
        ("member_joined", {"member": "m1"}, "Member m1 joined group billing."),
        (
            "member_left",
            {"member": "m1", "reason": "session timeout"},
            "Member m1 left group billing: session timeout.",
        ),
        ("assigned", {"member": "m1", "partitions": {"t": [0, 1, 2]}}, "Member m1 took t:0-2."),
        ("revoked", {"member": "m1", "partitions": {"t": [0]}}, "Member m1 gave up t:0."),
        ("lost", {"member": "m1", "partitions": "all"}, "Member m1 lost no partitions."),
        (
            "task_learning",
            {"member": "m1", "task": "c-1", "lag": 1_200, "remaining_ms": 90_000},
            "Member m1 begins to learn c-1, to take it over, 1,200 records to go, about 1 min 30 s left.",
        ),
        ("task_progress", {"member": "m1", "task": "c-1"}, "Member m1 restored more of c-1."),
        ("task_ready", {"member": "m1", "task": "c-1"}, "Member m1 is ready to take c-1 over."),
        ("task_running", {"member": "m1", "task": "c-1"}, "Member m1 runs c-1."),
        (
            "task_restoring",
            {"member": "m1", "task": "c-1"},
            "Member m1 owns c-1 and restores its state first.",
        ),
        ("task_suspended", {"member": "m1", "task": "c-1"}, "Member m1 stopped c-1 and keeps its state."),
        ("task_closed", {"member": "m1", "task": "c-1"}, "Member m1 closed c-1."),
        ("task_standby", {"member": "m1", "task": "c-1"}, "Member m1 keeps a copy of c-1."),
        (
            "rebalance_started",
            {"type": "consumer", "caused_by": "m2", "reason": "member m2 joined"},
            "Epoch 7 of group billing begins because of m2: member m2 joined.",
        ),
        (
            "generation_started",
            {"type": "consumer"},
            "Epoch 7 of group billing has its target: members go there one by one.",
        ),
        (
            "generation_stable",
            {"type": "consumer", "reason": "member m1 gave partitions up last", "caused_by": "m1"},
            "Group billing is stable: each member has reached epoch 7: member m1 gave partitions up last.",
        ),
        ("generation_ended", {"type": "consumer"}, "Epoch 7 of group billing has no members."),
        (
            "revoking",
            {"member": "m1", "partitions": {"t": [1]}},
            "Member m1 is to give up t:1, and others wait for it.",
        ),
        ("of_the_future", {}, "of_the_future in group billing, generation 7."),
    ],
)
def test_an_event_of_a_group_is_one_sentence(event: str, facts: dict[str, Any], words: str) -> None:
    assert said(group_event(0, event, AT, **facts), Source.GROUP) == words


def test_an_election_has_who_led_before_and_what_belongs_to_it() -> None:
    window = Window()
    endpoint = Endpoint(1, "b1", 9092)
    for at_ms, alive in ((AT - 5_000, True), (AT + 9_000, False)):
        broker = BrokerDescription(endpoint, BrokerEpoch(5), False, 0, alive=alive)
        window.seen_brokers([broker], 101, at_ms)
    by = {"principal": "User:alice", "address": "192.0.2.1"}
    window.read(
        Source.STATE,
        0,
        [
            elected(0, 1, 6, AT, isr=[1, 2, 3]),
            change(1, "start-replica", AT + 5_000, id="another"),
            elected(2, 2, 7, AT + 10_000, isr=[2, 3], reason="broker 1 is gone", by=by),
            change(3, "change-isr", AT + 20_000, epoch=7, broker=2, isr=[2], left=[3]),
            change(4, "change-isr", AT + 900_000, epoch=7, broker=2, isr=[2, 3], joined=[3]),
        ],
        AT + 900_000,
    )
    answer = explained(window, "state/0/2")
    assert answer["before"] == {"leader": 1, "epoch": 6, "isr": [1, 2, 3]}
    assert answer["after"] == {"leader": 2, "epoch": 7, "isr": [2, 3]}
    assert answer["cause"] == "broker 1 is gone (asked for by User:alice from 192.0.2.1)"
    assert answer["record"] == {"topic": "__state_changes", "partition": 0, "offset": 2}
    assert answer["fields"]["id"] == "elect-7"
    assert [each["id"] for each in answer["related"]] == ["state/0/0", "seen/0", "state/0/3"]
    gone = explained(window, "seen/0")
    assert (
        gone["sentence"] == "Broker 1 is gone: its session in ZooKeeper has ended." and gone["record"] is None
    )
    assert "state/0/2" in [each["id"] for each in gone["related"]]


def test_a_request_has_the_steps_of_its_life() -> None:
    window = Window()
    steps = [
        change(number, "start-replica", AT + 200_000 * number, id="r", state=state, requester=-1)
        for number, state in enumerate(("requested", "received", "completed"))
    ]
    window.read(Source.STATE, 0, [*steps, change(3, "start-replica", AT, id="another")], AT + 900_000)
    answer = explained(window, "state/0/1")
    assert [each["id"] for each in answer["related"]] == ["state/0/0", "state/0/2"]


def test_a_rebalance_says_what_each_member_had_before_and_after() -> None:
    window = Window()
    window.read(
        Source.GROUP,
        0,
        [
            group_event(0, "assigned", AT, member="m1", partitions={"t": [0, 1]}),
            group_event(1, "rebalance_started", AT + 1_000, reason="m2 joined", caused_by="m2"),
            group_event(2, "revoked", AT + 1_100, member="m1", partitions={"t": [1]}),
            group_event(3, "generation_stable", AT + 1_200, generation=8),
            group_event(4, "assigned", AT + 1_300, member="m2", partitions={"t": [1]}),
            group_event(5, "revoked", AT + 8_900, member="m2", partitions={"t": [1]}, reason="closed"),
            group_event(6, "member_left", AT + 9_000, member="m2"),
            group_event(7, "rebalance_started", AT + 9_000, reason="m2 left", caused_by="m2"),
        ],
        AT + 10_000,
    )
    for name in ("group/0/1", "group/0/3"):
        answer = explained(window, name)
        assert answer["before"] == {"members": {"m1": "t:0-1", "m2": "-"}}
        assert answer["after"] == {"members": {"m1": "t:0", "m2": "t:1"}}
    assert explained(window, "group/0/1")["related"][0]["sentence"] == "Member m1 took t:0-1."
    assert explained(window, "group/0/4")["after"] == {"members": {"m2": "t:1"}}


def test_a_coordinator_that_moved_belongs_to_the_rebalances_after_it() -> None:
    window = Window()
    moved = elected(0, 2, 7, AT, topic="__consumer_offsets", partition=0)
    window.read(Source.STATE, 0, [moved, elected(1, 2, 8, AT)], AT)
    window.read(Source.GROUP, 0, [group_event(0, "rebalance_started", AT + 500, reason="new")], AT + 500)
    assert [each["id"] for each in explained(window, "group/0/0")["related"]] == ["state/0/0"]
    assert [each["id"] for each in explained(window, "state/0/0")["related"]] == ["group/0/0"]
