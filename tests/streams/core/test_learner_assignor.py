"""Partitions as tasks: the leader's use of the members' reports, and the members' use of their shares."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.consumer.core.assignors.assignor import (
    HandlesAssignment,
    MemberSubscription,
    ReleasesFirst,
    SendsAssignmentData,
    SendsSubscriptionData,
)
from strandline.consumer.core.claims import settle
from strandline.consumer.core.leader_plan import ParsedMember, plan
from strandline.errors import SettingsError
from strandline.ids import TopicPartition
from strandline.streams.core.assignor import APPLICATION_SERVER_BYTES_MAX, LearnerAssignor
from strandline.streams.core.member import Received, StreamMember
from strandline.streams.core.protocol import AssignmentData, Directory, MemberData
from strandline.streams.core.task import TaskId
from strandline.vocabulary.parsing.consumer_protocol import (
    DRAFT_VERSION,
    Assignment,
    AssignmentError,
    Subscription,
)

SOURCES = {"counts": ("orders", "users"), "sums": ("amounts",)}
TOPICS = ("amounts", "orders", "users")
COUNTS = {"orders": 3, "users": 2, "amounts": 2}


class Process:
    """A member, with the assignor that speaks for it and what came of it."""

    def __init__(
        self, server: str = "", num_standbys: int = 0, sources: Mapping[str, tuple[str, ...]] = SOURCES
    ):
        self.member: StreamMember[TaskId] = StreamMember()
        self.received: list[Received[TaskId]] = []
        self.assignor = LearnerAssignor(
            self.member,
            sources,
            num_standbys=num_standbys,
            application_server=server,
            on_received=self.received.append,
        )

    def says(self, *owned: str, generation: int = 1, topics: tuple[str, ...] = TOPICS) -> MemberSubscription:
        """As `consumer.core` has it join, which releases what the assignor wants of `owned` first."""
        partitions = named(*owned)
        if partitions:
            partitions -= self.assignor.release_before_join()
        data = self.assignor.subscription_user_data()
        return MemberSubscription(topics, tuple(sorted(partitions)), generation, user_data=data)

    def hears(self, data: bytes, *owned: str, generation: int = 1) -> Received[TaskId]:
        self.assignor.on_assignment(data, named(*owned), generation)
        return self.received[-1]


def named(*partitions: str) -> frozenset[TopicPartition]:
    names = (name.rpartition("-") for name in partitions)
    return frozenset(TopicPartition(topic, int(number)) for topic, _, number in names)


def tasks(*names: str) -> frozenset[TaskId]:
    return frozenset(map(TaskId.parse, names))


def words(assigned: Mapping[str, list[TopicPartition]]) -> dict[str, str]:
    return {name: " ".join(map(str, partitions)) for name, partitions in assigned.items()}


def test_a_consumer_group_may_use_it_for_all_that_it_does() -> None:
    assignor = Process().assignor
    for kind in (SendsSubscriptionData, SendsAssignmentData, ReleasesFirst, HandlesAssignment):
        assert isinstance(assignor, kind)
    assert assignor.name == "streams-learner"


def test_a_task_is_one_partition_of_each_topic_of_its_subtopology() -> None:
    assignor = Process().assignor
    assert assignor.tasks_of(named("users-1", "orders-1", "amounts-0", "else-3")) == tasks(
        "counts-1", "sums-0"
    )
    assert assignor.partitions_of(tasks("counts-2")) == named("orders-2", "users-2")
    assert assignor.partitions_of(tasks("gone-2")) == frozenset()


def test_topics_with_fewer_partitions_have_none_of_the_later_tasks() -> None:
    leader = Process()
    assigned = leader.assignor.assign({"a": leader.says(), "b": Process().says()}, COUNTS)
    assert words(assigned) == {
        "a": "amounts-1 orders-0 orders-2 users-0",
        "b": "amounts-0 orders-1 users-1",
    }


def test_a_topic_that_does_not_exist_is_left_out() -> None:
    leader = Process()
    assert words(leader.assignor.assign({"a": leader.says()}, {"users": 1})) == {"a": "users-0"}
    assert words(leader.assignor.assign({"a": leader.says()}, {})) == {"a": ""}
    assert leader.assignor.assign({}, COUNTS) == {}


def test_new_partitions_of_a_topic_go_to_the_member_that_runs_their_task() -> None:
    """Those of new tasks go to the least loaded member."""
    one, two = Process(), Process()
    said = {"a": one.says("orders-0", "users-0", "orders-1"), "b": two.says("orders-2", "amounts-0")}
    assigned = one.assignor.assign(said, {"orders": 4, "users": 3, "amounts": 1})
    assert words(assigned) == {
        "a": "orders-0 orders-1 orders-3 users-0 users-1",
        "b": "amounts-0 orders-2 users-2",
    }


def test_the_owner_of_one_partition_of_a_task_has_the_task() -> None:
    """CORRECTNESS S1: even if its learner is ready."""
    owner, learner = Process(), Process()
    learner.member.learning = {TaskId("counts", 1): True}
    said = {"a": learner.says(), "b": owner.says("users-1")}
    given = owner.assignor.assign(said, COUNTS)
    assert set(given["b"]) >= named("orders-1", "users-1")


def test_a_task_stays_with_its_owner_though_the_leader_does_not_know_its_topic() -> None:
    """CORRECTNESS S1: the leader sees no claim on orders-1, and users-1 has just come into being."""
    owner, other = Process(), Process()
    owner.hears(b"", "orders-1")
    said = {"a": other.says(), "b": owner.says("orders-1", generation=1)}
    unseen = MemberSubscription(TOPICS, user_data=said["b"].user_data)
    assigned = other.assignor.assign({"a": said["a"], "b": unseen}, {"users": 2, "amounts": 1})
    assert "users-1" in words(assigned)["b"]


def test_a_member_that_lost_everything_claims_nothing_before_it_knows() -> None:
    process = Process()
    process.hears(b"", "orders-1")
    assert MemberData.decode(process.says("orders-1").user_data).assigned == tasks("counts-1")
    assert MemberData.decode(process.says().user_data).assigned == frozenset()


def test_the_later_of_two_members_that_gave_a_task_up_is_its_owner() -> None:
    """The other one has missed a generation: its state is the older one."""
    stale = MemberSubscription(TOPICS, user_data=MemberData(tasks("sums-0"), generation=4).encode())
    fresh = MemberSubscription(TOPICS, user_data=MemberData(tasks("sums-0"), generation=5).encode())
    assigned = Process().assignor.assign({"a": stale, "b": fresh}, {"amounts": 1})
    assert words(assigned) == {"a": "", "b": "amounts-0"}


def test_a_member_whose_data_cannot_be_read_keeps_what_it_has_and_is_named() -> None:
    leader = Process()
    garbage = MemberSubscription(TOPICS, tuple(named("amounts-1")), 1, user_data=b"?")
    members = {"a": leader.says(), "b": garbage}
    assigned, user_data = leader.assignor.assign_with_user_data(members, {"amounts": 2})
    assert words(assigned) == {"a": "amounts-0", "b": "amounts-1"}
    assert user_data.keys() == {"a", "b"}
    (line,) = leader.assignor.unreadable
    assert line.startswith("member b keeps what it has, and learns nothing: member data at byte 0 of 1")
    leader.assignor.assign({"a": leader.says()}, COUNTS)
    assert leader.assignor.unreadable == ()


def test_a_member_with_another_topology_is_named() -> None:
    leader = Process()
    other = MemberSubscription((*TOPICS, "newer"), user_data=MemberData().encode())
    leader.assignor.assign({"a": leader.says(), "b": other}, {**COUNTS, "newer": 1})
    (line,) = leader.assignor.unreadable
    assert line.startswith("member b reads newer, which the topology of this leader does not")


def test_tasks_go_only_to_members_that_subscribe_to_all_their_topics() -> None:
    """While an application is replaced by another version of itself."""
    old, new = Process(sources={"sums": ("amounts",)}), Process()
    said = {"a": old.says(topics=("amounts",)), "b": new.says()}
    assert words(new.assignor.assign(said, COUNTS)) == {
        "a": "amounts-0",
        "b": "amounts-1 orders-0 orders-1 orders-2 users-0 users-1",
    }
    assert words(new.assignor.assign({"a": said["a"]}, COUNTS)) == {"a": "amounts-0 amounts-1"}


def test_every_member_knows_the_owners_and_their_addresses() -> None:
    one, two = Process("host-1:80"), Process("host-2:80")
    assigned, user_data = one.assignor.assign_with_user_data(
        {"a": one.says(), "b": two.says()}, {"amounts": 2}
    )
    for process, name in ((one, "a"), (two, "b")):
        process.assignor.on_assignment(user_data[name], frozenset(assigned[name]), 1)
        assert process.assignor.owners == {TaskId("sums", 0): "a", TaskId("sums", 1): "b"}
        assert process.assignor.servers == {"a": "host-1:80", "b": "host-2:80"}


def test_a_directory_that_would_be_too_large_for_the_group_is_left_out() -> None:
    leader = Process()
    said = MemberSubscription(TOPICS, user_data=MemberData(application_server="h" * 250).encode())
    members = {f"member-{n}": said for n in range(200)}
    assigned, user_data = leader.assignor.assign_with_user_data(members, {"amounts": 1_000})
    assert sum(map(len, user_data.values())) < 200_000
    leader.hears(user_data["member-0"], "amounts-0")
    assert (leader.assignor.owners, leader.assignor.servers) == ({}, {})
    assert sum(map(len, assigned.values())) == 1_000


def test_subtopologies_without_state_get_no_standbys() -> None:
    one = LearnerAssignor(
        StreamMember(), SOURCES, num_standbys=1, application_server="", on_received=print, stateless=["sums"]
    )
    said = {"a": Process().says(), "b": Process().says()}
    user_data = [AssignmentData.decode(data) for data in one.assign_with_user_data(said, COUNTS)[1].values()]
    assert {task.subtopology for data in user_data for task in data.standbys} == {"counts"}


def test_data_of_a_leader_of_another_kind_are_ignored() -> None:
    process = Process()
    process.member.learning = {TaskId("sums", 0): True}
    received = process.hears(b"?", "orders-1")
    assert received.started == (TaskId("counts", 1),) and received.closed == (TaskId("sums", 0),)
    assert process.assignor.undecodable.startswith("assignment data at byte 0 of 1")
    process.hears(b"", "orders-1")
    assert process.assignor.undecodable == ""


def test_a_directory_that_cannot_be_read_hides_nothing_else() -> None:
    process = Process()
    received = process.hears(AssignmentData(tasks("sums-0"), directory=b"?").encode())
    assert received.learning == (TaskId("sums", 0),)
    assert process.assignor.undecodable.startswith("directory at byte 0 of 1")
    assert process.assignor.owners == {}


def test_a_suspended_task_is_restarted_after_an_unseen_generation() -> None:
    """CORRECTNESS S2."""
    learned = AssignmentData(learned={TaskId("sums", 0): False}).encode()
    for generation, resumed in ((8, True), (9, False)):
        process = Process()
        process.hears(learned, "amounts-0", generation=7)
        assert process.says("amounts-0").owned == ()
        received = process.hears(b"", "amounts-0", generation=generation)
        assert (received.resumed if resumed else received.started) == (TaskId("sums", 0),)


def test_settings_that_cannot_be_passed_on_are_refused() -> None:
    with pytest.raises(SettingsError, match="application_server"):
        Process("h" * (APPLICATION_SERVER_BYTES_MAX + 1))
    with pytest.raises(AssertionError, match="a topic twice"):
        Process(sources={"counts": ("orders",), "sums": ("orders",)})


def test_a_ready_learner_has_its_task_in_the_generation_that_the_owner_gave_it_up_in() -> None:
    """With the leader's own split after KIP-429: it revokes nothing, and no member must join twice."""
    owner, learner = Process(), Process()
    owned = ["orders-0", "users-0", "orders-1", "users-1", "amounts-0"]
    counts = {"orders": 2, "users": 2, "amounts": 1}

    def generation(number: int, mine: list[str], its: list[str]) -> dict[str, Assignment]:
        said = {"a": owner.says(*mine), "b": learner.says(*its)}
        members = {
            name: ParsedMember(
                Subscription(DRAFT_VERSION, m.topics, m.owned, m.owned_generation, m.user_data)
            )
            for name, m in said.items()
        }
        made = plan(members, counts, owner.assignor)
        assert not made.report.revoked and not made.report.rejoin
        for name, process in (("a", owner), ("b", learner)):
            given = made.assignments[name]
            assert given.error is AssignmentError.NONE
            process.assignor.on_assignment(given.user_data, frozenset(given.assigned), number)
        return dict(made.assignments)

    owner.hears(b"", *owned)
    generation(2, owned, [])
    assert learner.member.learning == {TaskId("counts", 0): False}
    assert learner.member.caught_up(TaskId("counts", 0))
    given = generation(3, owned, [])
    assert given["b"].assigned == tuple(sorted(named("orders-0", "users-0")))
    assert learner.received[-1].promoted == (TaskId("counts", 0),)
    assert owner.received[-1].closed == (TaskId("counts", 0),)


@pytest.mark.parametrize(
    "copy", [AssignmentData(learning=tasks("sums-0")), AssignmentData(standbys=tasks("sums-0"))]
)
def test_a_ready_copy_continues_while_two_claim_its_task_and_neither_gets_it(
    copy: AssignmentData,
) -> None:
    """CORRECTNESS G2: both have to give it up first, and it comes a generation later."""
    learner = Process(num_standbys=1)
    learner.hears(copy.encode())
    learner.member.caught_up(TaskId("sums", 0))
    before = learner.member.claim()
    said = {"a": learner.says()} | {
        name: MemberSubscription(TOPICS, tuple(named("amounts-0")), 3, user_data=MemberData().encode())
        for name in ("b", "c")
    }
    members = {
        name: ParsedMember(Subscription(DRAFT_VERSION, m.topics, m.owned, m.owned_generation, m.user_data))
        for name, m in said.items()
    }
    made = plan(members, {"amounts": 1}, learner.assignor)
    assert made.report.rejoin and made.assignments["a"].assigned == ()
    received = learner.hears(made.assignments["a"].user_data, generation=2)
    assert learner.member.claim() == before and received.closed == ()


def test_a_directory_names_only_members_that_it_knows() -> None:
    with pytest.raises(KeyError):
        Directory({TaskId("sums", 0): "a"}, {}).encode()


def known(partition: TopicPartition, counts: Mapping[str, int]) -> bool:
    return partition.partition < counts.get(partition.topic, 0)


ids = st.builds(TaskId, st.sampled_from(["counts", "sums", "gone"]), st.integers(0, 4))
flags = st.dictionaries(ids, st.booleans(), max_size=5)
sets = st.frozensets(ids, max_size=5)
said = st.builds(
    MemberData, sets, flags, flags, st.booleans(), st.text(max_size=5), sets, st.integers(-1, 4)
).map(MemberData.encode)
owned = st.frozensets(st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 2)), max_size=5)
subscriptions = st.builds(
    Subscription,
    st.just(DRAFT_VERSION),
    st.sampled_from([TOPICS, TOPICS, TOPICS, ("amounts",)]),
    owned.map(tuple),
    st.integers(0, 3),
    st.one_of(said, said, said, st.binary(max_size=40)),
)


@given(
    st.dictionaries(st.sampled_from("abcdef"), subscriptions, max_size=5),
    st.dictionaries(st.sampled_from(TOPICS), st.integers(3, 5)),
    st.integers(0, 2),
)
def test_for_any_reports_of_members_no_task_has_two_owners_and_no_leader_fails(
    subscribed: Mapping[str, Subscription], counts: Mapping[str, int], standbys: int
) -> None:
    """CORRECTNESS S1: stale claims, claims of the same, tasks that are gone, and bytes that mean nothing."""
    leader = Process(num_standbys=standbys)
    made = plan({name: ParsedMember(one) for name, one in subscribed.items()}, counts, leader.assignor)
    running: dict[TaskId, set[str]] = {}
    for partition, name in settle(subscribed).owners.items():
        for task in leader.assignor.tasks_of([partition] if known(partition, counts) else []):
            running.setdefault(task, set()).add(name)
    owners: dict[TaskId, str] = {}
    for name, given_to_it in made.assignments.items():
        for task in leader.assignor.tasks_of(p for p in given_to_it.assigned if known(p, counts)):
            assert owners.setdefault(task, name) == name, f"{task} is {name}'s and {owners[task]}'s"
            assert name in running.get(task, {name}), f"{name} gets some of {task}, others run it"
    for name, one in subscribed.items():
        taken = {p for p in one.owned if p not in made.assignments[name].assigned}
        assert taken <= set(made.assignments[name].revoked), "taken without a word"
        AssignmentData.decode(made.assignments[name].user_data)
