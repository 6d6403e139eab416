"""What changes the protocol of a group with members, and what does not (KIP-848, online migration)."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

import pytest

from strandline.broker.core.groups.limits import GROUP_BYTES_MAX
from strandline.broker.core.groups.requests import ConsumerBeats, Join
from strandline.broker.core.groups.stored import read_key
from strandline.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidRequest,
    RebalanceInProgress,
    UnknownMemberId,
)
from strandline.ids import TopicPartition
from strandline.vocabulary.groups import (
    ConsumerBeat,
    ConsumerHeartbeat,
    GroupProtocol,
    Heartbeat,
    Joined,
    LeavingMember,
    MemberIdGiven,
    OwnershipChange,
    OwnershipKind,
    SyncGroup,
)
from strandline.vocabulary.parsing.consumer_protocol import Assignment, Subscription
from tests.broker.core.consumer_groups.classic_client import ClassicClient
from tests.broker.core.consumer_groups.play import GROUP, LIMITS_HERE, Client, Play
from tests.broker.core.groups.support.stage import HOST, Stage, joining

UNREADABLE = GroupProtocol("range", b"no subscription")
READS_T = GroupProtocol("range", Subscription(0, ("t",)).encode())


def scene(policy: str = "bidirectional", *, cooperative: bool = False) -> tuple[Play, ClassicClient]:
    """A classic member reads all of topic t."""
    play = Play()
    play.stage = Stage(replace(LIMITS_HERE, group_consumer_migration_policy=policy))
    play.make("t", 2)
    client = ClassicClient(play, "K", ("t",), cooperative=cooperative)
    client.act()
    assert len(client.owned) == 2
    return play, client


@pytest.mark.parametrize(
    ("policy", "up", "down"),
    [
        ("bidirectional", True, True),
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("disabled", False, False),
    ],
)
def test_the_policy_says_which_way_groups_go(policy: str, up: bool, down: bool) -> None:
    """`group.consumer.migration.policy`."""
    play, _ = scene(policy)
    assert isinstance(play.join("A", ("t",)), ConsumerBeat if up else GroupIdNotFound)
    play = Play()
    play.stage = Stage(replace(LIMITS_HERE, group_consumer_migration_policy=policy))
    play.make("t", 2)
    play.join("A", ("t",))
    ClassicClient(play, "K", ("t",)).act()
    play.ask(play.clients["A"], -1)
    assert (play.described() is None) == down


def test_a_classic_group_of_others_is_not_converted() -> None:
    """Only consumers can be assigned to: others are refused as in Kafka."""
    play = Play()
    play.make("t", 2)
    for protocol_type, metadata in (("connect", READS_T.metadata), ("consumer", b"no subscription")):
        play.stage = Stage(LIMITS_HERE)
        protocols = (GroupProtocol("range", metadata),)
        play.stage.enter("K", protocol_type=protocol_type, protocols=protocols)
        assert isinstance(play.join("A", ("t",)), GroupIdNotFound)
        assert play.stage.found() is not None


def test_a_member_that_cannot_be_assigned_to_does_not_join() -> None:
    """Of another type, with bytes that are no subscription, or under no protocol of all classic members."""
    play, _ = scene()
    play.join("A", ("t",))
    for changes in (
        {"protocol_type": "connect", "protocols": (READS_T,)},
        {"protocols": (UNREADABLE,)},
        {"protocols": (GroupProtocol("sticky", READS_T.metadata),)},
    ):
        for member in ("", "L"):
            if not member and changes["protocols"] == (UNREADABLE,):
                continue  # it gets its id first, and is read then
            request = replace(joining(member), **changes)
            token = play.stage.ask(Join(request, "L", HOST))
            assert isinstance(play.stage.answers[token], InconsistentGroupProtocol)


def test_a_full_group_takes_no_classic_member() -> None:
    play, _ = scene()
    play.stage = play.stage.elsewhere(limits=replace(LIMITS_HERE, group_members_max=2))
    play.join("A", ("t",))
    token = play.stage.ask(Join(replace(joining("L"), protocols=(READS_T,)), "L", HOST))
    assert isinstance(play.stage.answers[token], GroupMaxSizeReached)


def test_a_newcomer_gets_its_id_first() -> None:
    """KIP-394, as in a classic group; an id is not kept, and any id will do."""
    play, _ = scene()
    play.join("A", ("t",))
    request = replace(joining(""), protocols=(READS_T,))
    assert play.stage.answers[play.stage.ask(Join(request, "new", HOST))] == MemberIdGiven("new")
    request = replace(request, member="another")
    answer = play.stage.answers[play.stage.ask(Join(request, "-", HOST, {"t": play.topics["t"]}))]
    assert isinstance(answer, Joined)
    assert (answer.member, answer.leader, answer.members) == ("another", "", ())


def test_each_kind_of_member_speaks_its_own_protocol() -> None:
    play, client = scene()
    play.join("A", ("t",))
    for asked in (
        Heartbeat(GROUP, "A", 2),
        SyncGroup(GROUP, "A", 2, "consumer", "range"),
    ):
        assert isinstance(play.stage.answers[play.stage.ask(asked)], UnknownMemberId)
    for epoch in (1, -1):
        token = play.stage.ask(ConsumerBeats(ConsumerHeartbeat(GROUP, client.member, epoch), HOST))
        assert isinstance(play.stage.answers[token], UnknownMemberId)


def test_a_request_to_leave_may_name_members_of_either_protocol() -> None:
    """As in Kafka: an administrator removes members. The last one of the consumer protocol takes the group's
    kind along."""
    play, client = scene()
    play.join("A", ("t",))
    play.join("B", ("t",), instance="i")
    client.act()
    first, second = play.stage.leave(LeavingMember("A"), LeavingMember("", "i"))
    assert (first.member, first.error, second.member, second.error) == ("A", None, "B", None)
    assert isinstance(play.beat("A"), UnknownMemberId)
    client.act()
    assert len(client.owned) == 2
    assert play.described() is None


def test_a_sync_is_for_the_generation_and_the_protocol_of_the_join() -> None:
    play, client = scene()
    play.join("A", ("t",))
    client.act()
    for request, error in (
        (SyncGroup(GROUP, "K", 9, "consumer", "range"), IllegalGeneration),
        (SyncGroup(GROUP, "K", 2, "connect", "range"), InconsistentGroupProtocol),
        (SyncGroup(GROUP, "K", 2, "consumer", "sticky"), InconsistentGroupProtocol),
        (SyncGroup(GROUP, "K", 2, "consumer", "range", instance="i"), UnknownMemberId),
    ):
        assert isinstance(play.stage.answers[play.stage.ask(request)], error)
    answer = play.stage.answers[play.stage.ask(SyncGroup(GROUP, "K", 2, "consumer", "range"))]
    assert Assignment.decode(answer).assigned == tuple(sorted(client.owned))


def test_an_assignment_has_the_form_that_its_member_expects() -> None:
    """The version of the member's subscription, as from Kafka; strandline's draft of KIP-429 names what the
    member is to give up."""
    play, _ = scene()
    play.join("A", ("t",))
    has = (TopicPartition("t", 0), TopicPartition("t", 1))
    for number, said, version, revoked in (
        (0, Subscription(0, ("t",)), 0, ()),
        (1, Subscription(3, ("t",), has), 3, ()),
        (2, Subscription(1, ("t",), has), 1, has),
    ):
        member = f"L{number}"
        protocols = (GroupProtocol("range", said.encode()),)
        request = replace(joining(member), protocols=protocols)
        answer = play.stage.answers[play.stage.ask(Join(request, "-", HOST, {"t": play.topics["t"]}))]
        sync = SyncGroup(GROUP, member, answer.generation, "consumer", "range")
        data = play.stage.answers[play.stage.ask(sync)]
        assert int.from_bytes(data[:2]) == version
        assert Assignment.decode(data).revoked == revoked


def test_a_held_heartbeat_of_a_classic_member_ends_when_it_is_to_join() -> None:
    """strandline's own members of the classic protocol hold their heartbeats."""
    play, client = scene()
    held = play.stage.heartbeat("K", 1, 30_000)
    play.join("A", ("t",))
    assert isinstance(play.stage.answers[held], RebalanceInProgress)
    client.act()
    held = play.stage.heartbeat("K", 2, 30_000)
    assert play.stage.waits(held)
    play.stage.later(6)
    assert play.stage.answers[held] is None
    held = play.stage.heartbeat("K", 2, 30_000)
    play.join("B", ("t",))
    assert isinstance(play.stage.answers[held], RebalanceInProgress)
    client.act()
    held = play.stage.heartbeat("K", 3, 30_000)
    for name in "AB":
        play.ask(play.clients[name], -1)
    assert isinstance(play.stage.answers[held], RebalanceInProgress)


def test_a_process_whose_instance_came_back_is_fenced() -> None:
    """KIP-345: its held heartbeat, too, or the two would replace each other."""
    play = Play()
    play.make("t", 2)
    old = ClassicClient(play, "K", ("t",), instance="i")
    old.act()
    play.join("A", ("t",))
    old.act()
    play.reconcile("A")
    held = play.stage.heartbeat(old.member, old.generation, 30_000, "i")
    new = ClassicClient(play, "L", ("t",), instance="i")
    new.act()
    assert isinstance(play.stage.answers[held], FencedInstanceId)
    assert len(new.owned) == 1
    assert old.act() == ["FencedInstanceId"]


def test_reports_of_classic_members_are_published() -> None:
    play, _ = scene()
    play.join("A", ("t",))
    change = OwnershipChange(OwnershipKind.ASSIGNED, (TopicPartition("t", 0),), 5, 1)
    token = play.stage.report("K", 1, change)
    assert play.stage.answers[token] is None
    assert play.stage.events[-1].partitions == (TopicPartition("t", 0),)
    token = play.stage.report("K", 1, replace(change, generation=9))
    assert isinstance(play.stage.answers[token], IllegalGeneration)


def test_a_conversion_names_its_topics_or_waits() -> None:
    """A topic that was not looked at has no id here yet: the client asks again."""
    play, _ = scene()
    said = ConsumerHeartbeat(GROUP, "A", 0, topics=("u",), rebalance_timeout_ms=60_000, owned=())
    token = play.stage.ask(ConsumerBeats(said, HOST, {"u": None}))
    assert play.stage.answers[token].retriable
    assert play.stage.found() is not None
    assert play.stage.core.unseen(GROUP) == ["t"]


def test_a_group_that_is_too_large_for_one_write_is_not_converted() -> None:
    """A conversion that the log refuses would be repeated for good."""
    play = Play()
    play.make("t", 2)
    said = Subscription(0, ("t",), user_data=bytes(60_000)).encode()
    protocols = tuple(GroupProtocol(name, said) for name in ("range", "sticky"))
    for number in range(30):
        play.stage.enter(f"K{number}", protocols=protocols)
    answer = play.join("A", ("t",))
    assert isinstance(answer, InvalidRequest)
    assert answer.limit == GROUP_BYTES_MAX
    assert play.described() is None
    assert len(play.stage.describe().members) == 30


# --- what the log has ------------------------------------------------------------------------------


def migrated() -> tuple[Play, int, int]:
    """A group that went up and down; how much the log had before, and in between."""
    play, client = scene(cooperative=True)
    play.stage.commit({TopicPartition("t", 0): 5}, "K", 1)
    before = len(play.stage.log)
    play.join("A", ("t",))
    client.act()
    play.reconcile("A")
    play.reconcile("A")
    client.act()
    between = len(play.stage.log)
    play.ask(play.clients["A"], -1)
    client.act()
    return play, before, between


def kind_of(play: Play) -> str:
    """Classic or consumer, with its members."""
    found = play.described()
    if found is not None:
        return f"consumer {' '.join(member.member for member in found.members)}"
    classic = play.stage.found()
    return "none" if classic is None else f"classic {' '.join(member.member for member in classic.members)}"


def loads(play: Play, log: list[tuple[bytes, bytes | None]]) -> str:
    """What a coordinator finds in this log."""
    other = Play()
    other.topics = play.topics
    other.stage = Stage(LIMITS_HERE, log=log)
    return kind_of(other)


def compacted(log: list[tuple[bytes, bytes | None]], *, tombstones: bool) -> list[tuple[bytes, bytes | None]]:
    last = {key: place for place, (key, _) in enumerate(log)}
    return [
        (key, value)
        for place, (key, value) in enumerate(log)
        if last[key] == place and (tombstones or value is not None)
    ]


def test_a_conversion_is_one_write() -> None:
    """A coordinator that takes over finds a group of one kind, after any write."""
    play, before, between = migrated()
    ups = [append for append in play.stage.effects if getattr(append, "records", None)]
    kinds = [{type(read_key(key)).__name__ for key, _ in append.records} for append in ups]  # type: ignore[union-attr]
    assert kinds.count({"GroupKey", "ConsumerKey"}) == 2
    at = 0
    for append in ups:
        at += len(append.records)  # type: ignore[union-attr]
        found = loads(play, play.stage.log[:at])
        assert found == ("consumer A K" if before < at <= between else "classic K")


@pytest.mark.parametrize("tombstones", [True, False])
def test_compacted_records_of_one_kind_do_not_bring_the_other_back(tombstones: bool) -> None:
    """KAFKA-20254: offsets that were committed before stay in front of the records of the group's next kind,
    and the tombstone between them is gone. They say nothing about the kind."""
    play, _, between = migrated()
    for upto, kind in ((between, "consumer A K"), (len(play.stage.log), "classic K")):
        log = compacted(play.stage.log[:upto], tombstones=tombstones)
        assert loads(play, log) == kind


def test_a_reader_may_miss_tombstones_of_a_log_that_is_compacted_meanwhile() -> None:
    """KAFKA-21117: it has read the records of an earlier kind, and the cleaner has taken their tombstones
    away before it comes to their place. The last kind counts."""
    play, before, between = migrated()
    log = play.stage.log
    for read in range(len(log) + 1):
        for upto, kind in ((between, "consumer A K"), (len(log), "classic K")):
            if before <= read <= upto:
                rest = [each for each in compacted(log[:upto], tombstones=False) if each in log[read:upto]]
                assert loads(play, log[:read] + rest) == kind, read


def test_what_was_missed_is_ended_with_the_next_write() -> None:
    play, before, _ = migrated()
    log = play.stage.log[:before] + compacted(play.stage.log[before:], tombstones=False)
    log = [*play.stage.log[: before + 8], *log[before:]]
    stage = Stage(LIMITS_HERE, log=log)
    play.stage = stage
    assert kind_of(play) == "classic K"
    assert loads(play, compacted(log, tombstones=False)) == "classic K"
    client = ClassicClient(play, "L", ("t",), cooperative=True)
    client.act()
    stage.later(61)
    client.act()
    left = [key for key, _ in compacted(stage.log, tombstones=False) if key[1] > 2]
    assert not left


def test_no_order_of_failed_writes_leaves_two_kinds() -> None:
    """Two conversions in flight, of which each may fail: the log's last word is the group's kind."""
    for outcomes in permutations([True, False]):
        play, client = scene()
        play.stage.writing = False
        play.send(
            play.clients.setdefault("A", Client("A")), 0, topics=("t",), rebalance_timeout_ms=60_000, owned=()
        )
        play.send(play.clients["A"], -1)
        for good in outcomes:
            play.stage.written() if good else play.stage.failed()
        while play.stage.wanted:
            play.stage.written()
        play.stage.writing = True
        client.act()
        assert kind_of(play) == "classic K"
        assert loads(play, play.stage.log) == "classic K"
        assert loads(play, compacted(play.stage.log, tombstones=False)) == "classic K"


def test_a_dead_group_is_deleted_with_its_records() -> None:
    """Its turn failed (CORRECTNESS X2): once it is deleted, the next coordinator does not find it."""
    play, client = scene()
    play.join("A", ("t",))
    client.act()
    play.stage.expects_failures = True
    found = play.stage.core._groups[GROUP].consumers
    assert found is not None
    del found.classic_held
    play.stage.heartbeat("K", client.generation, 1_000)
    assert play.stage.describe().state == "Dead"
    assert play.stage.answers[play.stage.delete()] is None
    assert loads(play, play.stage.log) == "none"
    assert not compacted(play.stage.log, tombstones=False)
