"""The ids of topics for whose offsets none was kept, and the names of ids, without ZooKeeper."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from strandline.broker.groups.handlers import GroupHandlers
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.errors import CoordinatorNotAvailable
from strandline.ids import TopicId
from strandline.security.rights import READ_GROUP
from tests.broker.support.access import CALLER, OPEN
from tests.broker.support.replicas import CLOCK, settings
from tests.broker.support.seat import seated


async def test_without_zookeeper_no_topic_counts_as_deleted(tmp_path: Path) -> None:
    """A fetch of all offsets without those of a topic would say that none was committed."""
    async with seated(tmp_path) as seat:
        seat.manager.session = None
        view = ClusterView(seat.manager, settings(), CLOCK)
        handlers = GroupHandlers(
            seat.manager, view, cast(Any, None), cast(Any, None), settings(), OPEN, cast(Any, None)
        )
        assert await handlers.ids_of([]) == {}
        with pytest.raises(CoordinatorNotAvailable):
            await handlers.ids_of(["tides"])
        assert await handlers.names_of({TopicId("a" * 32)}, READ_GROUP, "g", CALLER) == {}
