"""The broker's recorder: events that are sent together end together, and kept ones wait on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.rpc.transport import GrpcTransport
from strandline.adapters.system.files import SYSTEM_FILES
from strandline.broker.core.state_changes.events import elected
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.metadata.controller import controller_link
from strandline.broker.metadata.internal_topics import InternalTopics
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.state_changes.recorder import StateChangeRecorder
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.ids import BrokerEpoch, BrokerId, LeaderEpoch
from strandline.vocabulary.metadata import Endpoint, IsrMember, PartitionState
from strandline.vocabulary.state_changes import StateChangeEvent
from tests.broker.support.replicas import CLOCK, HOST, KEY, NAME, settings
from tests.waiting import eventually

NOWHERE = Endpoint(1, "127.0.0.1", 1)

Open = Callable[[], StateChangeRecorder]


@pytest.fixture
def open_recorder(tmp_path: Path) -> Iterator[Open]:
    """Recorders of one broker, a life each, with room for two events and a topic that cannot be reached."""
    boot = tmp_path / "boot"
    boot.write_text("this one")
    folder = DataFolder(tmp_path / "data", BrokerId(1), boot, SYSTEM_FILES)

    def open_one() -> StateChangeRecorder:
        given = settings(data_dir=folder.path, events_waiting_max=2)
        manager = ReplicaManager(given, folder, HOST)
        view = ClusterView(manager, given, CLOCK)
        topics = InternalTopics(manager, view, controller_link(view, GrpcTransport(), CLOCK))
        return StateChangeRecorder(manager, topics, NOWHERE, given, MemberKey(HOST.new_id))

    yield open_one
    folder.close()


def event(epoch: int) -> StateChangeEvent:
    state = PartitionState(BrokerId(1), LeaderEpoch(epoch), (IsrMember(BrokerId(1), BrokerEpoch(10)),))
    return elected(NAME.topic, KEY, state, at_ms=1, reason="first election")


async def test_events_put_together_end_together(open_recorder: Open) -> None:
    """One that found no room makes the whole end False, once, when the last of them has ended."""
    async with open_recorder() as recorder:
        ends: list[bool] = []
        recorder.record([event(1), event(2), event(3)], ends.append)
        assert ends == []
        recorder.record([event(4)])
        assert ends == []
        recorder.record([event(5)])
        assert ends == [False]
        recorder.record([event(6), event(7)])
        assert ends == [False]


async def test_a_kept_event_is_sent_in_the_next_life(open_recorder: Open) -> None:
    """CORRECTNESS T11: though this life never reached the topic."""
    async with open_recorder() as first:
        first.record_durably([event(1), event(2)])
    async with open_recorder() as second:
        await eventually(lambda: second.events.waiting == 2)
