"""Group administration finds the coordinator wherever it moved, and reports obstacles."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from strandline import Admin, TopicPartition
from strandline.adapters.codecs.groups import (
    DELETE_GROUP,
    DESCRIBE_GROUP,
    FIND_COORDINATOR,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
)
from strandline.adapters.codecs.log import METADATA
from strandline.errors import (
    BrokerNotAvailable,
    CoordinatorLoading,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    InvalidRequest,
    LeaderHint,
    NonEmptyGroup,
    NotCoordinator,
    OffsetMetadataTooLarge,
    OutcomeUnknown,
    StrandlineError,
    UnknownMemberId,
    UnknownTopicOrPartition,
)
from strandline.ports import Method, Request, Response
from strandline.vocabulary.groups import (
    CommittedOffset,
    DescribedGroup,
    DescribedMember,
    ListedGroup,
    OffsetCommit,
)
from tests.strandline.client.network import FastClock, Network, endpoint, memory_host, metadata

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
BROKER_1, BROKER_2, BROKER_3 = (endpoint(number).address for number in (1, 2, 3))


class Brokers(Network):
    """Each address answers each method with the next of its answers, the last one forever; an error is
    raised. Requests are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[tuple[str, str], deque[Any]] = {}
        self.calls: list[tuple[str, str]] = []
        self.requests: list[Any] = []
        for address in (BROKER_1, BROKER_2, BROKER_3):
            self.on(address, METADATA, metadata((1, 1), (2, 1)))
            self.on(address, FIND_COORDINATOR, endpoint(1))

    def on(self, address: str, method: Method[Any, Any], *answers: Any) -> None:
        self.answers[address, method.path] = deque(answers)

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        self.calls.append((address, method.path.rpartition("/")[2]))
        self.requests.append(request)
        answers = self.answers.get((address, method.path))
        if answers is None:
            raise BrokerNotAvailable(f"{address} is unreachable from here")
        answer = answers.popleft() if len(answers) > 1 else answers[0]
        if isinstance(answer, StrandlineError):
            raise answer
        response: Response = answer
        return response


@asynccontextmanager
async def looking_after(brokers: Brokers) -> AsyncIterator[Admin]:
    async with Admin(BROKER_1, host=memory_host(brokers, FastClock())) as admin:
        yield admin


def group(*members: str, state: str = "Stable", reason: str = "") -> DescribedGroup:
    described = tuple(DescribedMember(m, f"client-{m}", "10.0.0.9", b"", b"") for m in members)
    return DescribedGroup(
        "g", state, 3, "consumer", "sticky", members[0] if members else "", described, reason
    )


async def test_a_coordinator_that_moved_is_followed_to_where_the_old_one_points() -> None:
    """NOT_COORDINATOR with a hint costs one call, without one a new search."""
    brokers = Brokers()
    brokers.on(BROKER_1, DESCRIBE_GROUP, NotCoordinator("moved", leader=LeaderHint(3, "broker3", 9092, 7)))
    brokers.on(BROKER_3, DESCRIBE_GROUP, group("m"))
    async with looking_after(brokers) as admin:
        found = await admin.describe_group("g")
    assert found.coordinator.id == 3
    assert [m.member for m in found.group.members] == ["m"]
    assert [name for _, name in brokers.calls].count("FindCoordinator") == 1


@pytest.mark.parametrize(
    ("first", "searches"),
    [
        (CoordinatorLoading("reads its log"), 1),
        (NotCoordinator("not I"), 2),
        (CoordinatorNotAvailable("nobody"), 2),
        (OutcomeUnknown("broken"), 2),
    ],
)
async def test_transient_refusals_are_retried(first: StrandlineError, searches: int) -> None:
    """A coordinator that loads stays the one; any other refusal sends back to looking for it."""
    brokers = Brokers()
    brokers.on(BROKER_1, OFFSET_FETCH, first, {A: CommittedOffset(5), B: None})
    async with looking_after(brokers) as admin:
        assert await admin.group_offsets("g") == {A: CommittedOffset(5)}
    assert [name for _, name in brokers.calls].count("FindCoordinator") == searches


async def test_a_dead_coordinator_is_named_until_another_one_is_found() -> None:
    """The address that was advertised is the one thing that a person can check."""
    brokers = Brokers()
    async with looking_after(brokers) as admin:
        with pytest.raises(
            CoordinatorNotAvailable, match=r"'g'.*coordinator 1 advertised broker1:9092, unreachable"
        ):
            await admin.describe_group("g")
        brokers.on(BROKER_1, FIND_COORDINATOR, endpoint(2))
        brokers.on(BROKER_2, DESCRIBE_GROUP, group())
        assert (await admin.describe_group("g")).coordinator.id == 2


async def test_a_dead_group_is_described_with_its_reason() -> None:
    """A group whose turn failed is Dead and still there (CORRECTNESS X2): the user has to see why."""
    brokers = Brokers()
    brokers.on(BROKER_1, DESCRIBE_GROUP, group(state="Dead", reason="one of its turns failed"))
    async with looking_after(brokers) as admin:
        described = (await admin.describe_group("g")).group
    assert (described.state, described.reason) == ("Dead", "one of its turns failed")


async def test_the_list_joins_all_brokers_and_is_never_a_part() -> None:
    """A broker that cannot be asked may have the group that is looked for."""
    brokers = Brokers()
    b, a, c = (ListedGroup(name, "consumer", "Stable") for name in "bac")
    brokers.on(BROKER_1, LIST_GROUPS, [b])
    brokers.on(BROKER_2, LIST_GROUPS, CoordinatorLoading("reads its log"), [a, c])
    async with looking_after(brokers) as admin:
        with pytest.raises(BrokerNotAvailable, match="broker3"):
            await admin.list_groups()
        brokers.on(BROKER_3, LIST_GROUPS, [])
        assert await admin.list_groups() == [a, b, c]


async def test_a_deletion_whose_answer_was_lost_is_done() -> None:
    """Asked again, the coordinator does not know the group: the lost call was the one that deleted it.
    Without a lost call there never was one."""
    brokers = Brokers()
    gone = GroupIdNotFound("there is no group 'g'")
    brokers.on(BROKER_1, DELETE_GROUP, OutcomeUnknown("broken"), gone)
    async with looking_after(brokers) as admin:
        await admin.delete_group("g")
        with pytest.raises(GroupIdNotFound):
            await admin.delete_group("g")


async def test_offsets_are_set_from_outside_the_group() -> None:
    """G1: no member and no generation, which a coordinator takes only while the group is empty."""
    brokers = Brokers()
    brokers.on(BROKER_1, OFFSET_COMMIT, {A: None, B: None})
    async with looking_after(brokers) as admin:
        await admin.alter_group_offsets("g", {A: 3, B: 4})
    (sent,) = [request for request in brokers.requests if isinstance(request, OffsetCommit)]
    assert (sent.member, sent.generation) == ("", -1)
    assert sent.offsets == {A: CommittedOffset(3), B: CommittedOffset(4)}


@pytest.mark.parametrize(
    "answered",
    [lambda error: error, lambda error: {A: error, B: error}],
    ids=["the request", "each partition"],
)
async def test_a_group_with_members_refuses_and_they_are_named(
    answered: Callable[[StrandlineError], Any],
) -> None:
    """G1: its members' commits count, and the error names the members to stop."""
    brokers = Brokers()
    brokers.on(BROKER_1, OFFSET_COMMIT, answered(UnknownMemberId("who is ''?")))
    brokers.on(BROKER_1, DESCRIBE_GROUP, group("m1", "m2"))
    async with looking_after(brokers) as admin:
        with pytest.raises(NonEmptyGroup, match=r"m1 \(client client-m1 at 10.0.0.9\), m2.*stop them first"):
            await admin.alter_group_offsets("g", {A: 3, B: 4})


async def test_a_refused_partition_is_raised_with_the_others_as_notes() -> None:
    """G12: an offset that was not written down is an error, never silence."""
    brokers = Brokers()
    brokers.on(
        BROKER_1, OFFSET_COMMIT, {A: OffsetMetadataTooLarge("5 of 4"), B: OffsetMetadataTooLarge("6 of 4")}
    )
    async with looking_after(brokers) as admin:
        with pytest.raises(OffsetMetadataTooLarge, match="5 of 4") as raised:
            await admin.alter_group_offsets("g", {A: 3, B: 4})
    assert raised.value.__notes__ == ["t-1: 6 of 4"]


async def test_a_group_with_members_is_not_deleted_and_they_are_named() -> None:
    """The error names the members to stop, as in a reset."""
    brokers = Brokers()
    brokers.on(BROKER_1, DELETE_GROUP, NonEmptyGroup("group g has members"))
    brokers.on(BROKER_1, DESCRIBE_GROUP, group("m1"))
    async with looking_after(brokers) as admin:
        with pytest.raises(NonEmptyGroup, match=r"m1 \(client client-m1 at 10.0.0.9\); stop them first"):
            await admin.delete_group("g")


async def test_invalid_arguments_are_refused_before_a_broker_is_asked() -> None:
    brokers = Brokers()
    async with looking_after(brokers) as admin:
        begun = len(brokers.calls)
        group: Any
        for group in (3, None, "\ud800", b"x"):
            for call in (admin.describe_group, admin.group_offsets, admin.delete_group):
                with pytest.raises(InvalidRequest, match="group = "):
                    await call(group)
            with pytest.raises(InvalidRequest, match="group = "):
                await admin.alter_group_offsets(group, {A: 1})
        offsets: Any
        for offsets in ({A: -1}, {A: 2**63}, {A: "x"}, {A: True}, {"x": 1}, None, [A]):
            with pytest.raises(InvalidRequest, match=": give "):
                await admin.alter_group_offsets("g", offsets)
        assert len(brokers.calls) == begun


async def test_no_offset_is_set_if_one_is_of_a_missing_partition() -> None:
    brokers = Brokers()
    async with looking_after(brokers) as admin:
        with pytest.raises(UnknownTopicOrPartition, match="there is no t-2"):
            await admin.alter_group_offsets("g", {A: 1, TopicPartition("t", 2): 1})
    assert not [request for request in brokers.requests if isinstance(request, OffsetCommit)]
