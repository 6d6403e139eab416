"""The coordinators of many groups in one request, and requests that reach a broker which coordinates none."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from strandline.broker.groups.handlers import GroupHandlers
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.metadata.existing_partitions import TopicsNow
from strandline.errors import CoordinatorNotAvailable, InvalidGroupId, LeaderHint, NotCoordinator
from strandline.ids import OFFSETS_TOPIC, TopicId
from strandline.vocabulary.groups import (
    GroupProtocol,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    OffsetCommit,
    OffsetFetch,
    ReportOwnership,
    ReportTasks,
    SyncGroup,
)
from strandline.vocabulary.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from tests.broker.support.access import CALLER, OPEN
from tests.broker.support.replicas import CLOCK, LIVE, settings
from tests.broker.support.seat import seated


class NoTopic:
    """The topic cannot be created now."""

    def __init__(self) -> None:
        self.asked = 0

    async def find(self, topic: object) -> TopicMetadata:
        self.asked += 1
        raise CoordinatorNotAvailable("no controller")


async def test_the_controller_is_asked_once_for_all_groups_of_a_request(tmp_path: Path) -> None:
    """CORRECTNESS X6: a request names up to 20,000, and others wait while one has the topic created."""
    topics = NoTopic()
    async with seated(tmp_path) as seat:
        view = ClusterView(seat.manager, settings(), CLOCK)
        handlers = GroupHandlers(
            seat.manager, view, cast(Any, None), cast(Any, topics), settings(), OPEN, cast(Any, None)
        )
        found = await handlers.find_coordinators(["a", "", "\n", "c"], CALLER)
    assert [type(each) for each in found] == [
        CoordinatorNotAvailable, CoordinatorNotAvailable, InvalidGroupId, CoordinatorNotAvailable,
    ]  # fmt: skip
    assert topics.asked == 1


class LedElsewhere:
    """A view of a cluster in which broker 3 leads all partitions of `__consumer_offsets`."""

    async def describe(self, topics: Collection[str]) -> tuple[ClusterMetadata, list[str]]:
        partitions = (PartitionMetadata(0, 3, 7, (3,), (3,)),)
        topic = TopicMetadata(OFFSETS_TOPIC, TopicId("0" * 32), partitions)
        return ClusterMetadata("c", (), None, (topic,)), []

    async def topics_now(self, names: object) -> TopicsNow:
        return TopicsNow()

    async def missing(self, names: object) -> frozenset[object]:
        return frozenset()


async def test_a_broker_that_does_not_coordinate_a_group_names_the_one_that_does(tmp_path: Path) -> None:
    """A client need not look for it."""
    range_ = (GroupProtocol("range", b""),)
    async with seated(tmp_path) as seat:
        none_here = SimpleNamespace(topic_id=None)
        handlers = GroupHandlers(
            seat.manager,
            cast(Any, LedElsewhere()),
            cast(Any, none_here),
            cast(Any, None),
            settings(),
            OPEN,
            cast(Any, None),
        )
        asked = [
            (handlers.join, JoinGroup("g", "", 10_000, 10_000, "consumer", range_)),
            (handlers.sync, SyncGroup("g", "m", 1, "consumer", "range")),
            (handlers.heartbeat, Heartbeat("g", "m", 1)),
            (handlers.leave, LeaveGroup("g", ())),
            (handlers.commit, OffsetCommit("g", "m", 1, {})),
            (handlers.fetch_offsets, OffsetFetch("g")),
            (handlers.report, ReportOwnership("g", "m", 1, ())),
            (handlers.report_tasks, ReportTasks("g", "m", 1, ())),
            (handlers.describe, "g"),
            (handlers.delete, "g"),
        ]
        for method, request in asked:
            with pytest.raises(NotCoordinator) as raised:
                await cast(Any, method)(request, CALLER)
            end = LIVE[cast(Any, 3)].endpoint
            assert raised.value.leader == LeaderHint(3, end.host, end.port, 7, end.external), request
