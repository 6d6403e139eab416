"""Who asked is kept in znodes and records, and older ones without it are read as before (A17)."""

from __future__ import annotations

import json

import pytest

from strandline.adapters.zookeeper.layout.drain_znodes import dump_drain, load_drain
from strandline.adapters.zookeeper.layout.queue_znodes import (
    ElectionNotice,
    dump_notices,
    dump_state_changes,
    load_notices,
    load_state_changes,
)
from strandline.adapters.zookeeper.layout.reassignment_znodes import dump_reassignment, load_reassignment
from strandline.ids import NO_BROKER, BrokerEpoch, BrokerId, LeaderEpoch, PartitionId, PartitionKey, TopicId
from strandline.vocabulary.metadata import Drain, Reassignment, Replaced
from strandline.vocabulary.reassignment_events import reassignment_asked
from strandline.vocabulary.state_changes import (
    AskedBy,
    Command,
    NotAStateChange,
    StateChange,
    event_value,
    life_of,
    parse_event,
)

KEY = PartitionKey(TopicId("a" * 32), PartitionId(3))
ALICE, BOB = AskedBy("User:alice", "192.0.2.1"), AskedBy("User:bob", "192.0.2.2")
EACH = pytest.mark.parametrize("by", [None, ALICE], ids=["nobody", "alice"])


@EACH
def test_a_request_and_its_life(by: AskedBy | None) -> None:
    change = StateChange(
        "r", Command.START_REPLICA, "tides", KEY, LeaderEpoch(2), NO_BROKER, 5, reason="why", by=by
    )
    assert load_state_changes(dump_state_changes([change])) == [change]
    (event,) = life_of(change, BrokerId(1))
    assert event.by == by and parse_event(event_value(event)) == event
    assert ("by" in json.loads(event_value(event))) is (by is not None)


@EACH
@pytest.mark.parametrize("unclean", [False, True])
def test_a_notice(by: AskedBy | None, unclean: bool) -> None:
    notice = ElectionNotice("tides", KEY, LeaderEpoch(2), BrokerId(1), "why", unclean, by)
    assert load_notices(dump_notices([notice])) == [notice]


@EACH
def test_a_reassignment_and_the_ones_that_it_replaced(by: AskedBy | None) -> None:
    replaced = (Replaced("r1", (BrokerId(1),), 5, 6, BOB), Replaced("r2", (BrokerId(2),), 6, 7, None))
    wanted = Reassignment(
        KEY.topic_id, (BrokerId(3),), (BrokerId(1),), request_id="r3", at_ms=7, replaced=replaced, by=by
    )
    assert load_reassignment("tides", 3, dump_reassignment(wanted)) == wanted
    events = reassignment_asked("tides", KEY, wanted, BrokerId(1), LeaderEpoch(2))
    assert [event.by for event in events] == [BOB, BOB, None, None, by]


@EACH
def test_a_drain_keeps_it_and_is_the_same_drain_without_it(by: AskedBy | None) -> None:
    drain = Drain(BrokerEpoch(1), replicas=True, by=by)
    assert load_drain(1, dump_drain(drain)).by == by
    assert drain == Drain(BrokerEpoch(1), replicas=True)


@pytest.mark.parametrize("by", ["alice", {"principal": "User:alice"}, {"principal": 5, "address": ""}, []])
def test_what_names_no_caller_is_no_state_change(by: object) -> None:
    change = StateChange("r", Command.START_REPLICA, "tides", KEY, LeaderEpoch(2), NO_BROKER, 5, by=ALICE)
    (event,) = life_of(change, BrokerId(1))
    fields = json.loads(event_value(event)) | {"by": by}
    with pytest.raises(NotAStateChange):
        parse_event(json.dumps(fields).encode())
