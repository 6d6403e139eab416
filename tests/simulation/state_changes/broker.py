"""A broker of the walk: the real session with all its parts, over logs that only exist or not.

The queue of requests and its execution, elections, leaderships with their reassignments, handovers,
balancing, notices and the reconciler are real. A log has no records: a replica that fetches has everything.
The disk survives a crash; memory does not.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.system.memory_files import MemoryFiles
from strandline.broker.core.replication.epochs import EpochCache, EpochEntry
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.broker.replication.follower_end import ReplicaStream
from strandline.broker.session import BrokerSession
from strandline.broker.state_changes.outbox import Outbox
from strandline.broker.storage.log import PartitionLog
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.config.services import BrokerSettings
from strandline.errors import NotLeaderOrFollower
from strandline.ids import NO_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch, PartitionKey, TopicPartition
from strandline.vocabulary.metadata import Endpoint
from strandline.vocabulary.topic_config import TopicConfig
from tests.simulation.state_changes.recording import Recording
from tests.simulation.state_changes.zookeeper import SimulatedSession

if TYPE_CHECKING:
    from tests.simulation.state_changes.world import World

SETTINGS = {
    "reconcile_ms": 1_000,
    "preferred_leader_check_ms": 2_000,
    "keep_in_sync_ms": 1_000,
    "election_step_ms": 100,
    "handover_ms": 1_000,
    "events_waiting_max": 40,
}


@cache
def _settings(broker: BrokerId) -> BrokerSettings:
    return BrokerSettings(broker_id=broker, data_dir=Path("/nowhere"), **SETTINGS)  # type: ignore[arg-type]


@dataclass(slots=True)
class Stored:
    """The content of a replica's folder."""

    name: TopicPartition
    config: TopicConfig
    last_epoch: int = NO_EPOCH


class Folders(MemoryFiles):
    """Folders of replicas, which hold nothing."""

    def rename_directory(self, source: Path, target: Path) -> None:
        cast(Folder, source).remove()


@dataclass(slots=True)
class Disk:
    """The part of a broker that survives its death. Fulfils as much of `DataFolder` as its session needs."""

    broker_id: BrokerId
    replicas: dict[PartitionKey, Stored] = field(default_factory=dict)
    outbox: MemoryFiles = field(default_factory=MemoryFiles)
    files: Folders = field(default_factory=Folders)
    lives: frozenset[BrokerEpoch] = frozenset()
    previous_sessions: frozenset[int] = frozenset()
    sessions: frozenset[int] = frozenset()
    path: Path = Path("/nowhere")
    clean: bool = True
    power_lost: bool = False

    def check_cluster(self, cluster_id: str) -> None:
        pass

    def begin_session(self, session_id: int) -> None:
        if session_id not in self.sessions:
            self.previous_sessions = self.sessions
            self.sessions |= {session_id}

    def begin_life(self, broker_epoch: BrokerEpoch) -> None:
        self.lives |= {broker_epoch}

    def lives_after(self, life: int | None) -> frozenset[BrokerEpoch]:
        assert life is None  # no disk of this world loses anything
        return self.lives

    def remove_aside(self, aside: Path) -> None:
        pass  # `Folders.rename_directory` has removed it


class Folder:
    """Fulfils as much of `Path` as a replica's folder is asked for."""

    def __init__(self, key: PartitionKey, disk: Disk, removed: Callable[[TopicPartition], None]) -> None:
        self.key = key
        self._disk = disk
        self._removed = removed

    def with_name(self, name: str) -> str:
        return name

    def remove(self) -> None:
        self._removed(self._disk.replicas.pop(self.key).name)


class Anchored:
    """Fulfils as much of `Provenance` as the log of a disk that loses nothing is asked for."""

    anchored = True
    absent_through = None
    unsure_through = None


class EmptyLog:
    """Fulfils as much of `PartitionLog` as a leadership without producers asks for."""

    log_start_offset = 0
    log_end_offset = 0
    corrupt = None
    failed = None
    has_unflushed_segments = False
    provenance = Anchored()

    def __init__(self, stored: Stored, directory: Folder) -> None:
        self.directory = directory
        self._stored = stored

    @property
    def last_epoch(self) -> int:
        return self._stored.last_epoch

    @property
    def epochs(self) -> EpochCache:
        last = self._stored.last_epoch
        return EpochCache((EpochEntry(last, 0),) if last >= 0 else ())

    def needs_flush(self, _: float) -> bool:
        return False

    def flush(self) -> None:
        pass

    def begin_epoch(self, epoch: int) -> None:
        self._stored.last_epoch = epoch

    def reconfigure(self, config: TopicConfig) -> None:
        self._stored.config = config

    def close(self, *, clean: bool) -> None:
        pass


class Manager(ReplicaManager):
    """The real one, but for what it does to files."""

    def __init__(self, settings: BrokerSettings, disk: Disk, world: World) -> None:
        super().__init__(settings, cast(DataFolder, disk), world.host)
        self._disk = disk
        self._world = world

    def load(self) -> None:
        if not self._loaded:
            self._loaded = True
            for key, stored in self._disk.replicas.items():
                self._open(stored.name, key, self._folder(key), stored.config, clean=True)

    def create(self, name: TopicPartition, key: PartitionKey, config: TopicConfig) -> Replica:
        assert key not in self._closed, f"{name} is closed: reopen it"
        existing = self._replicas.get(key)
        if existing is None:
            self._disk.replicas[key] = Stored(name, config)
            existing = self._open(name, key, self._folder(key), config, clean=True)
        self._by_name[name] = existing
        return existing

    def _open_log(
        self, name: TopicPartition, path: Path, config: TopicConfig, *, clean: bool, power_lost: bool
    ) -> PartitionLog:
        folder = cast(Folder, path)
        return cast(PartitionLog, EmptyLog(self._disk.replicas[folder.key], folder))

    def _folder(self, key: PartitionKey) -> Path:
        def removed(name: TopicPartition) -> None:
            self._world.truth.removed(self.me, name.topic, key)

        return cast(Path, Folder(key, self._disk, removed))


@dataclass(slots=True)
class Flow:
    """One subscription of a follower."""

    number: int
    replica: Replica
    leader: BrokerId
    epoch: LeaderEpoch
    leadership: Leadership | None = None
    """The leadership that received the subscription."""
    refused: bool = False


class Session(BrokerSession):
    """The real one, except that following is simulated, without streams."""

    def __init__(self, process: BrokerProcess, coordination: SimulatedSession) -> None:
        manager, endpoint = process.manager, Endpoint(process.id, "host", 1)
        super().__init__(
            manager,
            coordination,
            endpoint,
            _no_stream,
            process.recording,
            MemberKey(manager.host.new_id),
        )
        self.flows: dict[PartitionKey, Flow] = {}
        self._process = process
        self._numbers = itertools.count(1)

    @property
    def life(self) -> BrokerEpoch:
        return self.registration.own.epoch

    def follow(self, replica: Replica) -> None:
        self.unfollow(replica)
        if replica.leader >= 0 and replica.leader != self._process.id:
            self.flows[replica.key] = Flow(next(self._numbers), replica, replica.leader, replica.leader_epoch)

    def follow_again(self, replica: Replica) -> None:
        self.follow(replica)

    def unfollow(self, replica: Replica) -> None:
        flow = self.flows.pop(replica.key, None)
        if flow is not None:
            self._stopped(flow)

    def _stopped(self, flow: Flow) -> None:
        if flow.leadership is not None and not flow.leadership.ended():
            flow.leadership.stopped_fetching(self._process.id, self.life, subscription=flow.number)

    def stop_all(self) -> None:
        """Its streams broke."""
        flows, self.flows = self.flows, {}
        for flow in flows.values():
            self._stopped(flow)

    def fetch(self) -> None:
        """Each flow reports its position to its leader, and ends if that one no longer leads."""
        for flow in list(self.flows.values()):
            leader = self._process.world.brokers[flow.leader].manager_if_up()
            if leader is not None and self.flows.get(flow.replica.key) is flow:
                self._fetch(flow, leader.get(flow.replica.key))

    def _fetch(self, flow: Flow, led: Replica | None) -> None:
        leadership = None if led is None else led.leadership
        if leadership is None or leadership.epoch != flow.epoch:
            if not flow.refused:
                flow.refused = True
                self._refused(flow.replica, NotLeaderOrFollower("it does not lead in this epoch"))
        elif leadership.core.outdated(self._process.id, self.life, flow.number):
            self.follow(flow.replica)
        else:
            flow.leadership = leadership
            end = flow.replica.log.log_end_offset
            leadership.fetched(self._process.id, self.life, end, subscription=flow.number)
            leadership.turn()


async def _no_stream(_: Endpoint) -> ReplicaStream:
    raise AssertionError("followers here have no streams")


class BrokerProcess:
    """Dies and lives again; `disk` is what stays."""

    def __init__(self, broker_id: BrokerId, world: World) -> None:
        self.id = broker_id
        self.world = world
        self.disk = Disk(broker_id)
        self.session: Session | None = None
        self.coordination: SimulatedSession | None = None
        self.manager: Manager
        self.recording: Recording
        self.serving = False
        self.life_number = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def up(self) -> bool:
        return self._task is not None

    def manager_if_up(self) -> Manager | None:
        return self.manager if self.up else None

    def start(self) -> None:
        assert not self.up
        self.life_number += 1
        settings = _settings(self.id)
        self.manager = Manager(settings, self.disk, self.world)
        self.recording = Recording(self.world.truth)
        self._task = self.world.loop.create_task(self._run())

    async def _run(self) -> None:
        self.recording.outbox = Outbox(self.disk.path / "outbox", self.recording, files=self.disk.outbox)
        self.recording.outbox.open()
        while True:
            self.coordination = self.world.zookeeper.open_session(f"broker {self.id}")
            self.session = Session(self, self.coordination)
            await self.session.run(on_serving=self._serves)
            if asyncio.current_task() is not self._task:
                return  # it died as its session failed: then the group forgets the cancellation
            self.serving = False
            self.session.stop_all()
            self.coordination.close_at_server()

    def _serves(self) -> None:
        self.serving = True

    def die(self, taken: int) -> None:
        """With `taken` of its requests under way at the server; its session stands until it expires."""
        assert self._task is not None
        if self.coordination is not None:
            self.coordination.die(taken)
        self._task.cancel()
        self._task = None
        self.serving = False

    def buried(self) -> None:
        """After its tasks have ended: what it had under way is gone, and its streams are broken."""
        if self.session is not None:
            self.session.stop_all()

    def failure(self) -> BaseException | None:
        """The error that ended it, if it was not killed."""
        task = self._task
        return task.exception() if task is not None and task.done() else None
