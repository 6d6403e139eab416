"""Every replica on this broker, and the changes of role: lead, follow, step down, close, delete.

Changes of role never await: what decides them was read before, the epoch guards against what came
in between, and the change itself cannot be seen half done (decide, then act).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from uuid import uuid4

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.broker.core.replication.reassignment import Assignment
from strandline.broker.core.replication.replica_states import ReplicaState
from strandline.broker.membership.peers import Peers
from strandline.broker.replicas.counts import Counts
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.log_lives import judge_found, judge_made, open_log
from strandline.broker.replicas.replica import Replica
from strandline.broker.replicas.retention_clock import RetentionClock
from strandline.broker.replicas.session_port import LeadershipWatcher, Session
from strandline.broker.storage.log import PartitionLog
from strandline.broker.storage.state_files.checkpoint import Checkpoint
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.broker.storage.state_files.partition_folder import DELETED_SUFFIX, Description, folder_name
from strandline.config import BrokerSettings
from strandline.errors import (
    InvalidConfig,
    LeaderHint,
    NotLeaderOrFollower,
    StorageBusy,
    StorageFailed,
    UnknownTopicOrPartition,
)
from strandline.ids import (
    NO_BROKER,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionKey,
    TopicPartition,
)
from strandline.ports import Clock
from strandline.vocabulary.metadata import PartitionState, Registration
from strandline.vocabulary.topic_config import TopicConfig

logger = structlog.get_logger(__name__)


class ReplicaManager:
    """The replicas of one broker process. Outlives ZooKeeper sessions; leads only within one."""

    def __init__(self, settings: BrokerSettings, folder: DataFolder, clock: Clock) -> None:
        self.me = BrokerId(settings.broker_id)
        self.settings = settings
        self.folder = folder
        self.clock = clock
        self.peers = Peers(clock, self._peers_changed)
        self.session: Session | None = None
        self.watchers: list[LeadershipWatcher] = []
        self.counts = Counts()
        self._replicas: dict[PartitionKey, Replica] = {}
        self._by_name: dict[TopicPartition, Replica] = {}
        self._closed: dict[PartitionKey, Replica] = {}
        """Nothing here uses them, so they are in neither of the two above."""
        self._unclean: set[PartitionKey] = set()
        """Closed ones whose logs the next start must not trust."""
        self._loaded = False
        self._watermarks = Checkpoint(folder.path / "watermarks", files=folder.files)
        self.retention = RetentionClock(folder.path / "retention_time", clock, folder.files)

    # --- finding -----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Replica]:
        return iter(tuple(self._replicas.values()))

    @property
    def live(self) -> Mapping[BrokerId, Registration]:
        """The brokers that are registered, suspects too."""
        return self.peers.live

    def get(self, key: PartitionKey) -> Replica | None:
        return self._replicas.get(key)

    def all(self) -> list[Replica]:
        """The closed ones, too."""
        return [*self._replicas.values(), *self._closed.values()]

    def closed(self, key: PartitionKey) -> Replica | None:
        """The replica, if it is here and closed."""
        return self._closed.get(key)

    def named(self, topic: str, partition: int) -> Replica:
        """Raises UnknownTopicOrPartition, and NotLeaderOrFollower for a replica that is closed."""
        name = TopicPartition(topic, partition)
        replica = self._by_name.get(name)
        if replica is None:
            if any(replica.name == name for replica in self._closed.values()):
                raise NotLeaderOrFollower(f"the replica of {name} on broker {self.me} is closed")
            raise UnknownTopicOrPartition(f"broker {self.me} has no replica of {topic}-{partition}")
        return replica

    def known(self, key: PartitionKey, topic: str) -> Replica:
        """By incarnation. Raises UnknownTopicOrPartition, and NotLeaderOrFollower for one that is closed."""
        replica = self._replicas.get(key)
        if replica is None:
            if key in self._closed:
                raise NotLeaderOrFollower(f"the replica of {topic}-{key.partition} here is closed")
            raise UnknownTopicOrPartition(
                f"broker {self.me} has no replica of {topic}-{key.partition} with topic id {key.topic_id}"
            )
        return replica

    def hint(self, replica: Replica) -> LeaderHint | None:
        """The leader that this broker believes in, if it is another one and alive."""
        registration = self.live.get(replica.leader)
        if registration is None or replica.leader == self.me:
            return None
        end = registration.endpoint
        return LeaderHint(replica.leader, end.host, end.port, replica.leader_epoch, end.external)

    # --- opening and closing -----------------------------------------------------------------

    def load(self) -> None:
        """Open every log in the data folder, recovering those of a life that did not end cleanly; once."""
        if self._loaded:
            return
        self._loaded = True
        for path in self.folder.partition_folders():
            if path.name.endswith(DELETED_SUFFIX):
                self.folder.files.remove_directory(path)
                continue
            try:
                found = Description.load(path, files=self.folder.files)
                config = TopicConfig.parse(found.config)
            except (ValueError, InvalidConfig) as error:
                # It is kept. If this replica is assigned here, `create` takes what is left in it.
                logger.error("not a replica's folder", path=str(path), reason=str(error))
                continue
            replica = self._open(found.name, found.key, path, config, clean=self.folder.clean)
            judge_found(found, replica.log, self.folder, replica.watermark_known)

    def create(self, name: TopicPartition, key: PartitionKey, config: TopicConfig) -> Replica:
        """A new, empty replica, or the one that is there; requests by name go to it from now on.

        A folder that is there and does not say whose it is was emptied or damaged: what is left in it is
        scanned, and counts for no earlier life. Raises OSError, StorageFailed.
        """
        assert key not in self._closed, f"{name} is {self._closed[key].state.value}: reopen it"
        existing = self._replicas.get(key)
        if existing is None:
            path = self.folder.path / folder_name(name, key)
            is_new = self.folder.files.make_directory(path)
            watermark = self._watermarks.get(self._checkpoint_key(key))
            self._watermarks.begin(self._checkpoint_key(key))
            Description(name, key, config.overrides()).save(path, files=self.folder.files, sync=False)
            existing = self._open(name, key, path, config, clean=is_new)
            existing.watermark_known = Offset(watermark or 0)
            existing.raise_watermark(existing.watermark_known)
            judge_made(existing.log, self.folder)
        self._by_name[name] = existing
        return existing

    def _open(
        self, name: TopicPartition, key: PartitionKey, path: Path, config: TopicConfig, *, clean: bool
    ) -> Replica:
        log = self._open_log(name, path, config, clean=clean)
        watermark = self._watermarks.get(self._checkpoint_key(key))
        replica = Replica(
            name,
            key,
            log,
            config,
            Offset(watermark or 0),
            trail_events_max=self.settings.isr_trail_events_max,
        )
        log.on_failed = partial(self._log_failed, replica, log)
        replica.counts = self.counts.of(name.topic)
        replica.become(ReplicaState.FOLLOWER)
        self._replicas[key] = replica
        self._by_name[name] = replica
        return replica

    def _open_log(
        self, name: TopicPartition, path: Path, config: TopicConfig, *, clean: bool
    ) -> PartitionLog:
        return open_log(name, path, config, self.settings, self.clock, self.folder.files, clean=clean)

    def reconfigure(self, replica: Replica, assignment: Assignment, config: TopicConfig) -> None:
        """Take what ZooKeeper says of the partition and its topic. An assignment that was read before the one
        known, and came in late, is passed over."""
        if not assignment.older_than(replica.assignment):
            replica.assignment = assignment
        if config != replica.config:
            replica.config = config
            replica.log.reconfigure(config)
            Description(replica.name, replica.key, config.overrides()).save(
                replica.log.directory, files=self.folder.files
            )
        if replica.leadership is not None:
            replica.leadership.reconfigured()

    def close_replica(self, replica: Replica) -> None:
        """Have nothing here use it any more; its log is on disk, whole. Flush it before, in a thread.

        Raises IllegalTransition for one that leads.
        """
        self._close(replica, clean=True)

    def _close(self, replica: Replica, *, clean: bool) -> None:
        replica.become(ReplicaState.CLOSING)
        self.stop_following(replica)
        del self._replicas[replica.key]
        if self._by_name.get(replica.name) is replica:
            del self._by_name[replica.name]
        self._closed[replica.key] = replica
        replica.leader = NO_BROKER
        replica.log.close(clean=clean)
        replica.become(ReplicaState.CLOSED)
        replica.announce()

    def reopen(self, replica: Replica) -> None:
        """Have a closed replica again, as a follower. Raises OSError, StorageFailed; then it stays closed."""
        log = self._open_log(replica.name, replica.log.directory, replica.config, clean=False)
        replica.become(ReplicaState.STARTING)
        replica.reopened(log)
        log.on_failed = partial(self._log_failed, replica, log)
        replica.become(ReplicaState.FOLLOWER)
        del self._closed[replica.key]
        self._unclean.discard(replica.key)
        self._replicas[replica.key] = replica
        self._by_name[replica.name] = replica

    def delete(self, replica: Replica) -> Path:
        """Close the replica, if it is not closed, and move its folder aside; the caller removes the folder
        returned. Raises OSError; then it is closed."""
        if replica.state is ReplicaState.LEADER:
            self.step_down(replica, None)
        if replica.state is not ReplicaState.CLOSED:
            self._unclean.add(replica.key)  # until it is gone
            self._close(replica, clean=False)
        # A name of its own: an earlier one of this partition may still be being removed.
        aside = replica.log.directory.with_name(
            f"{self._checkpoint_key(replica.key)}-{uuid4().hex}{DELETED_SUFFIX}"
        )
        self.folder.files.rename_directory(replica.log.directory, aside)
        replica.become(ReplicaState.DELETED)
        del self._closed[replica.key]
        self._unclean.discard(replica.key)
        self._watermarks.forget(self._checkpoint_key(replica.key))
        return aside

    # --- roles -------------------------------------------------------------------------------

    def lead(self, replica: Replica, state: PartitionState, version: int) -> None:
        """Lead in the epoch that was just won: (epoch, LEO) goes to the epoch file first (T4).

        Where `flush.messages` asks for it, the tail is synced before it counts. A log that fails at this
        leads nowhere: the epoch is resigned.
        """
        session = self.session
        if session is None or not replica.learn_leader(self.me, state.leader_epoch):
            return
        if self._replicas.get(replica.key) is not replica:  # closed or deleted since it stood
            session.resign(replica, state.leader_epoch)
            return
        self._end(replica)
        self.stop_following(replica)
        crash_point("election.before_epoch_file")
        try:
            if replica.log.needs_flush(self.clock.monotonic()):
                replica.log.flush()
            replica.log.begin_epoch(state.leader_epoch)
        except (StorageFailed, StorageBusy) as error:
            logger.error(
                "a replica failed as it was elected", partition=str(replica.name), reason=error.message
            )
            replica.become(ReplicaState.FOLLOWER)
            session.resign(replica, state.leader_epoch)
            return
        crash_point("election.after_epoch_file")
        replica.learn_loss(state.lossy_epoch)
        leadership = Leadership(
            replica,
            state,
            version,
            settings=self.settings,
            session=session.coordination,
            clock=self.clock,
            live=self.peers.live,
            suspects=self.peers.suspects.lives,
            recorder=session.recorder,
            on_step_down=self.step_down,
            on_handed_over=self.retire,
        )
        replica.become(ReplicaState.LEADER)
        replica.leadership = leadership
        session.exercise(leadership)
        for watcher in self.watchers:
            watcher.begun(leadership)
        replica.announce()

    def follow(self, replica: Replica, leader: BrokerId, epoch: LeaderEpoch) -> None:
        """Follow a leader, unless a higher epoch is known already."""
        known, led = (replica.leader, replica.leader_epoch), replica.leadership is not None
        if not replica.learn_leader(leader, epoch):
            return
        if led:
            self._end(replica)
            replica.become(ReplicaState.FOLLOWER)
        if self.session is None or replica.log.failed is not None:
            return
        if known == (leader, epoch) and not led:
            self.session.follow_again(replica)
        else:
            self.session.follow(replica)

    def step_down(self, replica: Replica, state: PartitionState | None) -> None:
        """Stop leading: another epoch leads (`state`), or this broker cannot go on (None)."""
        if replica.leadership is None:
            return
        logger.warning(
            "stepping down",
            partition=str(replica.name),
            epoch=replica.leader_epoch,
            failed=replica.log.failed,
            new_leader=None if state is None else state.leader,
        )
        if state is not None and state.leader not in (self.me, NO_BROKER):
            self.follow(replica, state.leader, state.leader_epoch)
            return
        epoch = replica.leadership.epoch
        self.retire(replica, NO_BROKER)
        if self.session is not None:
            if state is None:
                self.session.resign(replica, epoch)
            else:
                self.session.vacant(replica)

    def _log_failed(self, replica: Replica, log: PartitionLog) -> None:
        """The log's fence closed, whatever was done to it then: on the thread that met the failure."""
        logger.error("a replica failed", partition=str(replica.name), reason=log.failed)
        if self.session is not None:
            self.session.soon(partial(self._give_up, replica, log))

    def _give_up(self, replica: Replica, log: PartitionLog) -> None:
        """Lead no longer with a log that failed, and follow nobody: the leader takes it out of the ISR."""
        if self._replicas.get(replica.key) is not replica or replica.log is not log:
            return
        if replica.leadership is not None:
            self.step_down(replica, None)
        else:
            self.stop_following(replica)

    def retire(self, replica: Replica, next_leader: BrokerId) -> None:
        """Stop leading for good reason; follow the one named next, if there is one."""
        if next_leader != NO_BROKER:
            self.follow(replica, next_leader, replica.leader_epoch)
            return
        self._end(replica)
        replica.become(ReplicaState.FOLLOWER)
        replica.leader = NO_BROKER
        replica.announce()

    def _end(self, replica: Replica) -> None:
        if replica.leadership is not None:
            leadership, replica.leadership = replica.leadership, None
            replica.led_epoch = leadership.epoch
            for watcher in self.watchers:
                watcher.ended(leadership)
            leadership.end()

    def stop_following(self, replica: Replica) -> None:
        """Fetch it no more, and acknowledge nothing of it to its leader."""
        if self.session is not None:
            self.session.unfollow(replica)

    def end_session(self) -> None:
        """The ZooKeeper session is over: lead nothing, believe in no leader (DESIGN §3). What is assigned is
        read again from the first: a ZooKeeper that was set back has lower versions."""
        self.session = None
        self.peers.session_ended()
        for replica in self.all():
            replica.assignment = Assignment()
        for replica in tuple(self._replicas.values()):
            if replica.leadership is not None:
                self._end(replica)
                replica.become(ReplicaState.FOLLOWER)
            replica.leader = NO_BROKER
            replica.announce()

    def _peers_changed(self) -> None:
        suspects = self.peers.suspects.lives
        for leadership in self._leaderships():
            leadership.live_changed(self.peers.live, suspects)
        if self.session is not None:
            self.session.peers_changed()

    def follower_left(self, broker: BrokerId) -> None:
        """The stream of a follower ended, whoever ended it."""
        if self.session is not None and broker in self.peers.live:
            self.session.probe(broker)

    def link_changed(self, connected: bool) -> None:
        for leadership in self._leaderships():
            leadership.link_changed(connected)

    def _leaderships(self) -> list[Leadership]:
        return [r.leadership for r in self._replicas.values() if r.leadership is not None]

    # --- watermarks on disk, and the end -----------------------------------------------------

    @staticmethod
    def _checkpoint_key(key: PartitionKey) -> str:
        return f"{key.topic_id}-{key.partition}"

    def _watermarks_now(self) -> dict[str, int]:
        return {self._checkpoint_key(r.key): max(r.high_watermark, r.watermark_known) for r in self.all()}

    async def checkpoint_watermarks(self) -> None:
        """The HW checkpoint task: all of them, atomically; what else the file knows stays in it (H7)."""
        while True:
            await self.clock.sleep(self.settings.watermark_checkpoint_ms / 1000)
            try:
                await asyncio.to_thread(self._watermarks.write, self._watermarks_now())
            except OSError as error:  # an older one is true as well, only lower; the disk may have room again
                logger.error("high watermarks were not checkpointed", reason=str(error))

    def close(self, *, clean: bool) -> None:
        """Close every log; after a clean one the next start scans nothing."""
        whole = True
        try:
            self._watermarks.write(self._watermarks_now())
        except OSError as error:
            logger.error("high watermarks were not checkpointed", reason=str(error))
            whole = False
        for replica in tuple(self._replicas.values()):
            if replica.leadership is not None:
                self._end(replica)
                replica.become(ReplicaState.FOLLOWER)
            replica.become(ReplicaState.CLOSING)
            replica.log.close(clean=clean)
            replica.become(ReplicaState.CLOSED)
            whole = whole and replica.whole
        whole = whole and not self._unclean and all(replica.whole for replica in self._closed.values())
        if clean and whole:
            self.folder.mark_clean()
