"""One request may ask for the coordinators of many groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from strandline.broker.groups.handlers import GroupHandlers
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.errors import CoordinatorNotAvailable, InvalidGroupId
from strandline.vocabulary.metadata import TopicMetadata
from tests.broker.support.access import CALLER, OPEN
from tests.broker.support.replicas import CLOCK, settings
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
        handlers = GroupHandlers(seat.manager, view, cast(Any, None), cast(Any, topics), settings(), OPEN)
        found = await handlers.find_coordinators(["a", "b", "", "c"], CALLER)
    assert [type(each) for each in found] == [
        CoordinatorNotAvailable, CoordinatorNotAvailable, InvalidGroupId, CoordinatorNotAvailable,
    ]  # fmt: skip
    assert topics.asked == 1
