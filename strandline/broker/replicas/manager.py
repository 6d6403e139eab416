"""Holds every replica on this broker, and changes their roles: lead, follow, step down, close, delete.

Changes of role never await. Their reasons were read before, the epoch guards against changes in between, and
no other task sees a change half done (decide, then act).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.broker.core.election.traffic import ISR_LOT_MAX, idle_delay_s
from strandline.broker.core.replication.reassignment import PartitionAssignment
from strandline.broker.core.replication.replica_states import ReplicaState
from strandline.broker.membership.hearing import Hearing
from strandline.broker.membership.peers import Peers
from strandline.broker.membership.pulse import Pulse
from strandline.broker.replicas.counts import Counts
from strandline.broker.replicas.folders.anchoring import Anchoring
from strandline.broker.replicas.folders.removing import Removing
from strandline.broker.replicas.leadership import Leadership, turn_all
from strandline.broker.replicas.local_replica import LocalReplica
from strandline.broker.replicas.log_lives import judge_found, judge_made, open_log
from strandline.broker.replicas.record_trace import RecordTraces
from strandline.broker.replicas.replica import Replica
from strandline.broker.replicas.session_port import LeadershipWatcher, Session
from strandline.broker.replicas.table import ReplicaTable
from strandline.broker.storage.log import PartitionLog
from strandline.broker.storage.state_files.data_folder import DataFolder
from strandline.broker.storage.state_files.partition_folder import DELETED_SUFFIX, Description, folder_name
from strandline.broker.storage.state_files.retention_clock import RetentionClock
from strandline.broker.storage.state_files.watermarks import Watermark, Watermarks, entry_name
from strandline.config.services.broker import BrokerSettings
from strandline.errors import (
    InvalidConfig,
    LeaderHint,
    NotLeaderOrFollower,
    StorageBusy,
    StorageFailed,
    StrandlineError,
)
from strandline.host import ServiceHost
from strandline.ids import (
    NO_BROKER,
    BrokerId,
    LeaderEpoch,
    PartitionKey,
    TopicPartition,
)
from strandline.vocabulary.metadata import PartitionState, Registration
from strandline.vocabulary.topic_config import TopicConfig

logger = structlog.get_logger(__name__)


class ReplicaManager:
    """The replicas of one broker process. It outlives ZooKeeper sessions, but leads only within one."""

    def __init__(self, settings: BrokerSettings, folder: DataFolder, host: ServiceHost) -> None:
        self.me = BrokerId(settings.broker_id)
        self.settings = settings
        self.folder = folder
        self.host = host
        self.clock = host.clock
        self.peers = Peers(host.clock, self._peers_changed)
        self.anchoring = Anchoring(folder, host.threads)
        self.removing = Removing(folder, host.threads)
        self.pulse = Pulse(host.clock)
        self.hearing = Hearing(self.peers, self.pulse)
        self.session: Session | None = None
        self.watchers: list[LeadershipWatcher] = []
        self.counts = Counts()
        self._traces = RecordTraces(self.me, settings.trace_every, host.clock)
        self._table = ReplicaTable(self.me)
        self._unclean: set[PartitionKey] = set()
        """Closed replicas whose logs the next start must scan."""
        self._unjudged: set[PartitionKey] = set()
        """Replicas whose logs could not be read when this life began after a loss of power."""
        self._loaded = False
        self._watermarks = Watermarks(folder.path, files=folder.files)
        self.retention = RetentionClock(folder.path / "retention_time", host.clock, folder.files)

    # --- look-ups ----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._table)

    @property
    def live(self) -> Mapping[BrokerId, Registration]:
        """The brokers that are registered, including suspects."""
        return self.peers.live

    def get(self, key: PartitionKey) -> Replica | None:
        return self._table.get(key)

    def all(self) -> list[Replica]:
        """All replicas, including closed ones."""
        return self._table.all()

    def closed(self, key: PartitionKey) -> Replica | None:
        """The replica, if it is here and closed."""
        return self._table.closed(key)

    def find(self, name: TopicPartition) -> Replica | None:
        """As `ReplicaTable.find`."""
        return self._table.find(name)

    def named(self, topic: str, partition: int) -> Replica:
        """As `ReplicaTable.named`."""
        return self._table.named(topic, partition)

    def known(self, key: PartitionKey, topic: str) -> Replica:
        """As `ReplicaTable.known`."""
        return self._table.known(key, topic)

    def hint(self, replica: LocalReplica) -> LeaderHint | None:
        """The leader that this broker knows, if it is another broker and alive."""
        registration = self.live.get(replica.leader)
        if registration is None or replica.leader == self.me:
            return None
        end = registration.endpoint
        return LeaderHint(replica.leader, end.host, end.port, replica.leader_epoch, end.external)

    def with_hint(self, error: StrandlineError, replica: Replica) -> StrandlineError:
        """The error for a client: where this broker does not lead, it names the leader."""
        if isinstance(error, NotLeaderOrFollower):
            return NotLeaderOrFollower(error.message, leader=self.hint(replica))
        return error

    # --- opening and closing -----------------------------------------------------------------

    def load(self) -> None:
        """Opens every log in the data folder, and recovers those of a life that did not end cleanly. Called
        once. Raises StorageBusy: a replica that is left out would no longer count for earlier lives."""
        if self._loaded:
            return
        self._loaded = True
        for path in self.folder.partition_folders():
            if path.name.endswith(DELETED_SUFFIX):
                try:
                    self.folder.files.remove_directory(path)
                except OSError as error:
                    logger.error("a deleted replica's folder stays", path=str(path), reason=str(error))
                continue
            try:
                found = Description.load(path, files=self.folder.files)
                config = TopicConfig.parse(found.config)
            except (ValueError, InvalidConfig, OSError) as error:
                # The folder is kept. If this replica is assigned here, `create` uses what is left in it.
                logger.error("not a replica's folder", path=str(path), reason=str(error))
                if isinstance(error, OSError):
                    self.folder.keep_power_loss()
                continue
            replica = self._open(found.name, found.key, path, config, clean=self.folder.clean)
            if not judge_found(found, replica.log, self.folder, replica.watermark_known):
                self._unjudged.add(found.key)
        self._lower_watermarks(*self)

    def create(self, name: TopicPartition, key: PartitionKey, config: TopicConfig) -> Replica:
        """Returns the replica, or creates a new, empty one. Requests by name use it from now on.

        A folder without a description was emptied or damaged: its remaining files are scanned, and count for
        no earlier life. Raises OSError, StorageFailed.
        """
        closed, existing = self._table.closed(key), self._table.get(key)
        assert closed is None, f"{name} is {closed.state.value}: reopen it"
        if existing is None:
            path = self.folder.path / folder_name(name, key)
            is_new = self.folder.files.make_directory(path)
            watermark = self._watermarks.get(key)
            self._watermarks.begin(key)
            description = Description(name, key, config.overrides())
            if is_new:
                description.save_new(path, files=self.folder.files)
            else:
                description.save(path, files=self.folder.files, sync=False)
            existing = self._open(name, key, path, config, new=is_new)
            existing.watermark_known = watermark.known
            existing.raise_watermark(watermark.reached)
            judge_made(existing.log, self.folder)
        self._table.put(existing)
        return existing

    def _open(
        self, name: TopicPartition, key: PartitionKey, path: Path, config: TopicConfig, *,
        clean: bool = False, new: bool = False,
    ) -> Replica:  # fmt: skip
        log = self._open_log(name, path, config, clean=clean, new=new, power_lost=self.folder.power_lost)
        watermark = self._watermarks.get(key)
        replica = Replica(
            name,
            key,
            log,
            config,
            watermark.reached,
            trail_events_max=self.settings.isr_trail_events_max,
        )
        replica.watermark_known = watermark.known
        replica.on_lowered = partial(self._lower_watermarks, replica)
        log.on_failed = partial(self._log_failed, replica, log)
        replica.counts = self.counts.of(name.topic)
        replica.trace = self._traces.of(name, lambda: replica.leader_epoch)
        replica.become(ReplicaState.FOLLOWER)
        self._table.put(replica)
        return replica

    def _open_log(
        self, name: TopicPartition, path: Path, config: TopicConfig, *,
        clean: bool = False, new: bool = False, power_lost: bool,
    ) -> PartitionLog:  # fmt: skip
        return open_log(
            name, path, config, self.settings, self.clock, self.folder.files,
            clean=clean, new=new, power_lost=power_lost,
        )  # fmt: skip

    def reconfigure(self, replica: Replica, assignment: PartitionAssignment, config: TopicConfig) -> None:
        """Takes the assignment and config read from ZooKeeper. Ignores an assignment that is older than the
        known one."""
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
        """Closes the replica and its log, so that no task uses it. Flush the log in a thread before.

        Raises IllegalTransition for a leader.
        """
        self._close(replica, clean=True)

    def _close(self, replica: Replica, *, clean: bool) -> None:
        replica.become(ReplicaState.CLOSING)
        self.stop_following(replica)
        self._table.close(replica)
        replica.leader = NO_BROKER
        replica.log.close(clean=clean)
        replica.become(ReplicaState.CLOSED)
        replica.announce()

    def reopen(self, replica: Replica) -> None:
        """Opens a closed replica again, as a follower. Raises OSError, StorageFailed; then it stays
        closed."""
        unjudged = replica.key in self._unjudged
        log = self._open_log(replica.name, replica.log.directory, replica.config, power_lost=unjudged)
        if unjudged and log.failed is None and self.folder.life_before is not None:
            log.provenance.mark_unsure(self.folder.life_before)
            self._unjudged.discard(replica.key)
        replica.become(ReplicaState.STARTING)
        replica.reopened(log)
        log.on_failed = partial(self._log_failed, replica, log)
        replica.become(ReplicaState.FOLLOWER)
        self._unclean.discard(replica.key)
        self._table.put(replica)

    def delete(self, replica: Replica) -> Path:
        """Closes the replica if necessary, and moves its folder aside. The caller removes the returned
        folder. Raises OSError; then the replica is closed."""
        if replica.state is ReplicaState.LEADER:
            self.step_down(replica, None)
        if replica.state is not ReplicaState.CLOSED:
            self._unclean.add(replica.key)  # until its folder is removed
            self._close(replica, clean=False)
        # A unique name: an earlier folder of this partition may still be being removed.
        aside = replica.log.directory.with_name(
            f"{entry_name(replica.key)}-{self.host.new_id()}{DELETED_SUFFIX}"
        )
        self.folder.files.rename_directory(replica.log.directory, aside)
        replica.become(ReplicaState.DELETED)
        self._table.forget(replica)
        self._unclean.discard(replica.key)
        self._unjudged.discard(replica.key)
        self._watermarks.forget(replica.key)
        return aside

    # --- roles -------------------------------------------------------------------------------

    def lead(self, replica: Replica, state: PartitionState, version: int) -> None:
        """Leads in the epoch that was just won. Writes (epoch, LEO) to the epoch file first (T4).

        If `flush.messages` requires it, the tail of the log is synced before it counts. If the log fails
        here, this broker does not lead and resigns the epoch.
        """
        session = self.session
        if session is None or not replica.learn_leader(self.me, state.leader_epoch):
            return
        if self._table.get(replica.key) is not replica:  # closed or deleted since it stood
            session.resign(replica, state.leader_epoch)
            return
        self._end(replica)
        self.stop_following(replica)
        crash_point("election.before_epoch_file")
        try:
            if replica.log.needs_flush(self.clock.monotonic()):
                replica.log.flush()
            replica.log.appending.begin_epoch(state.leader_epoch)
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
            host=self.host,
            live=self.peers.live,
            suspects=self.peers.suspects.lives,
            silent=self.peers.silent,
            recorder=session.recorder,
            on_step_down=partial(self.step_down, replica),
            on_handed_over=partial(self.retire, replica),
        )
        replica.become(ReplicaState.LEADER)
        replica.leadership = leadership
        session.exercise(leadership)
        for watcher in self.watchers:
            watcher.begun(leadership)
        replica.announce()

    def follow(self, replica: Replica, leader: BrokerId, epoch: LeaderEpoch) -> None:
        """Follows a leader, unless a higher epoch is known already."""
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
        """Stops leading: another epoch leads (`state`), or this broker cannot continue (None)."""
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
        """Handles a closed fence of the log. Called on the thread that met the failure."""
        logger.error("a replica failed", partition=str(replica.name), reason=log.failed)
        if self.session is not None:
            self.session.soon(partial(self._give_up, replica, log))

    def _give_up(self, replica: Replica, log: PartitionLog) -> None:
        """Gives up a log that failed: neither leads nor follows. The leader removes the replica from the
        ISR."""
        if self._table.get(replica.key) is not replica or replica.log is not log:
            return
        if replica.leadership is not None:
            self.step_down(replica, None)
        else:
            self.stop_following(replica)

    def retire(self, replica: Replica, next_leader: BrokerId) -> None:
        """Stops leading after a resignation, and follows the successor if one was named."""
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
        """Stops fetching the partition, and acknowledges nothing of it to its leader."""
        if self.session is not None:
            self.session.unfollow(replica)

    def end_session(self) -> None:
        """Ends the ZooKeeper session: leads nothing and knows no leaders. Assignments are read
        again from scratch, since a ZooKeeper restored from a backup has lower versions."""
        self.session = None
        self.peers.session_ended()
        for replica in self.all():
            replica.assignment = PartitionAssignment()
        for replica in self:
            if replica.leadership is not None:
                self._end(replica)
                replica.become(ReplicaState.FOLLOWER)
            replica.leader = NO_BROKER
            replica.announce()

    def _peers_changed(self) -> None:
        for registration in self.peers.live.values():
            self.host.heard_of(registration.endpoint)
        suspects, silent = self.peers.suspects.lives, self.peers.silent
        now, idle = self.clock.monotonic(), list[Leadership]()
        for leadership in self._leaderships():
            if not (is_busy := leadership.is_busy(now)):
                idle.append(leadership)
            leadership.live_changed(self.peers.live, suspects, silent, turn=is_busy)
        for first in range(0, len(idle), ISR_LOT_MAX):
            delay_s, lot = idle_delay_s(first), idle[first : first + ISR_LOT_MAX]
            asyncio.get_running_loop().call_later(delay_s, turn_all, lot)
        if self.session is not None:
            self.session.peers_changed()

    def follower_left(self, broker: BrokerId) -> None:
        """Handles the end of a follower's stream."""
        if self.session is not None and broker in self.peers.live:
            self.session.probe(broker)

    def link_changed(self, connected: bool) -> None:
        for leadership in self._leaderships():
            leadership.link_changed(connected)

    def _leaderships(self) -> list[Leadership]:
        return [r.leadership for r in self if r.leadership is not None]

    # --- watermarks on disk, and closing -----------------------------------------------------

    def _watermarks_now(self) -> dict[PartitionKey, Watermark]:
        return _watermarks_of(self.all())

    def _lower_watermarks(self, *replicas: Replica) -> None:
        """Lowers what is on the disk to the HW that these replicas have. If that is impossible, their logs
        fail: nothing may be appended to them (H7)."""
        try:
            self._watermarks.lower(_watermarks_of(replicas))
        except OSError as error:
            for replica in replicas:
                replica.log.fail(error)

    async def checkpoint_watermarks(self) -> None:
        """Writes the HW checkpoint of all replicas atomically. Other entries stay in the file (H7)."""
        while True:
            await self.clock.sleep(self.settings.watermark_checkpoint_ms / 1000)
            try:
                await self.host.threads.run(self._watermarks.write, self._watermarks_now)
            except OSError as error:  # the older file is lower but valid; try again later
                logger.error("high watermarks were not checkpointed", reason=str(error))

    def close(self, *, clean: bool) -> None:
        """Closes every log. After a clean close, the next start scans nothing."""
        whole = True
        try:
            self._watermarks.write(self._watermarks_now)
        except OSError as error:
            logger.error("high watermarks were not checkpointed", reason=str(error))
            whole = False
        for replica in self:
            if replica.leadership is not None:
                self._end(replica)
                replica.become(ReplicaState.FOLLOWER)
            replica.become(ReplicaState.CLOSING)
            replica.log.close(clean=clean)
            replica.become(ReplicaState.CLOSED)
            whole = whole and replica.whole
        whole = whole and not self._unclean and all(replica.whole for replica in self._table.all_closed())
        if clean and whole and self._loaded:  # a process that stops before says nothing about the logs
            self.folder.mark_clean()


def _watermarks_of(replicas: Iterable[Replica]) -> dict[PartitionKey, Watermark]:
    """Without failed logs: one that could not be read may have more than is known now."""
    return {r.key: Watermark(r.high_watermark, r.watermark_known) for r in replicas if r.log.failed is None}
