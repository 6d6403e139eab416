"""A stream application from its group's description and events: who runs, learns and stands by for a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strandline.console.core.groups.stream_tasks import (
    ASSIGNOR,
    Part,
    Progress,
    Role,
    Said,
    Sayings,
    application,
    application_names,
    sayings,
    topics_of,
)
from strandline.console.core.timeline.all_rows import Rows
from strandline.console.core.timeline.facts.group_events import put
from strandline.console.core.timeline.places import Source, pack
from strandline.consumer.described.view import GroupView
from strandline.ids import TopicPartition
from strandline.streams.core.protocol import AssignmentData, Directory, MemberData
from strandline.streams.core.task import TaskId
from strandline.vocabulary.groups import CommittedOffset, DescribedGroup, DescribedMember
from strandline.vocabulary.parsing.consumer_protocol import Assignment, Subscription
from tests.consumer.described_groups import viewed

T0, T1 = TaskId("words", 0), TaskId("words", 1)
OWNERS = {T0: "a", T1: "a"}


def member(
    name: str,
    share: AssignmentData | None = None,
    claim: MemberData | None = None,
    owners: Mapping[TaskId, str] = OWNERS,
) -> DescribedMember:
    """A member with this share; the directory is added."""
    directory = Directory(owners, {"a": "", "b": ""}).encode() if owners else b""
    share = share or AssignmentData()
    data = AssignmentData(share.learning, share.standbys, share.learned, share.revoked, directory)
    return DescribedMember(
        name,
        f"client-{name}",
        "127.0.0.1",
        Subscription(1, ("words",), user_data=(claim or MemberData()).encode()).encode(),
        Assignment(1, (), user_data=data.encode()).encode(),
    )


def group(*members: DescribedMember, state: str = "Stable") -> GroupView:
    described = DescribedGroup("app", state, 3, "consumer", ASSIGNOR, "a", members)
    return viewed(
        described,
        {TopicPartition("words", 0): CommittedOffset(4), TopicPartition("words", 1): CommittedOffset(0)},
        {TopicPartition("words", 0): 10},
    )


def event(kind: str, member: str, task: str = "words-0", **fields: Any) -> dict[str, Any]:
    return {"event": kind, "group": "app", "generation": 3, "member": member, "task": task, **fields}


def said(*events: Mapping[str, Any]) -> Sayings:
    """What the timeline makes of these events, one each millisecond."""
    rows = Rows()
    for at_ms, each in enumerate(events):
        put(rows, each, at_ms, pack(Source.GROUP, 0, at_ms), at_ms)
    return sayings(rows.groups.get("app"))


def parts(view: GroupView, *events: Mapping[str, Any]) -> dict[str, tuple[Part, ...]]:
    return {task.name: task.parts for task in application(view, said(*events)).tasks}


def test_the_assignment_says_who_has_each_task_and_events_what_became_of_it() -> None:
    view = group(member("a"), member("b", AssignmentData(frozenset({T1}), frozenset({T0}))))
    assert parts(
        view,
        event("task_restoring", "a", lag=9),
        event("task_running", "a"),
        event("task_learning", "b", "words-1", lag=90),
        event("task_progress", "b", "words-1", lag=40, records_per_s=20.0, remaining_ms=2_000),
    ) == {
        "words-0": (Part("a", Role.RUNS), Part("b", Role.STANDS_BY)),
        "words-1": (Part("a", Role.OWNS), Part("b", Role.LEARNS, None, Progress(3, 40, 20.0, 2_000))),
    }


def test_a_copy_is_ready_by_the_members_last_claim_or_a_later_event() -> None:
    claim = MemberData(standbys={T0: True}, learning={T1: False})
    view = group(member("a"), member("b", AssignmentData(frozenset({T1}), frozenset({T0})), claim))
    before = parts(view)
    assert [each.ready for each in (before["words-0"][1], before["words-1"][1])] == [True, False]
    after = parts(
        view, event("task_ready", "b", "words-1", lag=3), event("task_progress", "b", "words-1", lag=2)
    )
    assert after["words-1"][1] == Part("b", Role.LEARNS, True, Progress(1, 2))


def test_progress_does_not_change_what_a_member_does() -> None:
    """Learners, standbys and owners that restore all report it."""
    large = group(*(member(name, owners={}) for name in "abc"))
    found = parts(
        large,
        event("task_restoring", "a"),
        event("task_standby", "b"),
        event("task_learning", "c"),
        *(event("task_progress", name, lag=1) for name in "abc"),
    )
    assert [each.role for each in found["words-0"]] == [Role.RESTORES, Role.LEARNS, Role.STANDS_BY]


def test_what_was_said_before_the_leader_decided_does_not_contradict_it() -> None:
    """b ran words-0 and gave it up; it was given nothing of it. a was its learner, and owns it now."""
    view = group(member("a"), member("b"))
    found = parts(
        view, event("task_running", "b"), event("task_suspended", "b"), event("task_ready", "a", lag=1)
    )
    assert found["words-0"] == (Part("a", Role.OWNS),)


def test_members_that_left_and_tasks_that_were_closed_are_silent() -> None:
    assert said(
        event("task_running", "a"),
        event("task_running", "b", "words-1"),
        event("task_closed", "b", "words-1"),
        event("member_left", "a", task=""),
        event("task_running", "c"),
        event("task_progress", "d", lag=5),
    ) == {
        ("c", "words-0"): Said("running", None),
        ("d", "words-0"): Said("learning", Progress(5, 5)),
    }
    assert sayings(None) == {}


def test_a_group_without_a_list_of_its_tasks_has_those_of_which_members_spoke() -> None:
    """A very large group has no directory; and no assignment while a generation forms."""
    large = group(member("a", owners={}), member("b", AssignmentData(standbys=frozenset({T0})), owners={}))
    events = (event("task_running", "a"), event("task_running", "gone", "words-1"))
    assert parts(large, *events) == {"words-0": (Part("a", Role.RUNS), Part("b", Role.STANDS_BY))}
    assert "no list of all tasks" in " ".join(application(large, said(*events)).unknown)
    forming = group(member("a", owners={}), state="PreparingRebalance")
    assert "between two generations" in " ".join(application(forming, said(*events)).unknown)


def test_what_is_not_known_is_said() -> None:
    empty = application(group(state="Empty"), {})
    assert (empty.tasks, len(empty.unknown)) == ((), 1)
    silent = application(group(member("a")), {})
    assert "No event of a task is known" in silent.unknown[0]


def test_a_member_whose_data_cannot_be_read_hides_nothing_else() -> None:
    """The coordinator takes any bytes."""
    strange = DescribedMember("x", "c", "h", b"\xff", b"\xff\xff")
    known = member("a", claim=MemberData(leaving=True, application_server="host:80"))
    found = application(group(known, strange), said(event("task_running", "a")))
    assert [(each.member, each.readable, each.leaving, each.server) for each in found.members] == [
        ("a", True, True, "host:80"),
        ("x", False, False, ""),
    ]
    assert found.unknown == ("The data of 1 of 2 members could not be read.",)
    assert [task.name for task in found.tasks] == ["words-0", "words-1"]


def test_tasks_are_in_the_order_of_their_numbers_with_the_lag_of_their_input() -> None:
    owners = {TaskId("words", number): "a" for number in (10, 2, 0, 1)}
    found = application(group(member("a", owners=owners)), {}).tasks
    assert [(task.name, task.input_lag) for task in found] == [
        ("words-0", 6),
        ("words-1", None),
        ("words-2", None),
        ("words-10", None),
    ]
    owner = found[0].owner
    assert owner is not None
    assert (owner.member, found[0].others) == ("a", ())


def test_the_topics_of_a_subtopology_are_known_by_name_or_because_one_is_left() -> None:
    assert topics_of("app", ["lines"], ["lines", "other"]) == {"lines": ("lines", "other")}
    assert topics_of("app", ["lines", "words"], ["lines", "app-words-repartition"]) == {
        "lines": ("lines",),
        "words": ("app-words-repartition",),
    }
    assert topics_of("app", ["a", "b"], ["a", "b"]) == {"a": ("a",), "b": ("b",)}
    assert topics_of("app", ["a", "b"], ["a", "b", "c"]) == {}, "c may be of either"


def test_applications_are_found_by_their_tasks_and_their_topics() -> None:
    topics = [
        "my-app-words-changelog",
        "my-app-words-repartition",
        "other-changelogs",
        "x-changelog",
        "lines",
    ]
    assert application_names(["my", "my-app", "plain", "spoke"], topics, ["spoke", "gone"]) == (
        "my",
        "my-app",
        "spoke",
    ), "a group whose id begins another one's may be the application too: opening it shows which it is"
    assert application_names(["plain"], topics, []) == ()
