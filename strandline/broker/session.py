"""Runs one ZooKeeper session of a broker, from registration to its end.

One TaskGroup owns everything that depends on the session: the registration, leaderships, elections, the
queue. When the session ends, the group ends, and so do all claims of the session. The next session starts
only from the logs (CORRECTNESS E10–E13).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import structlog

from strandline.adapters.codecs.replication import REPORT_SILENCE
from strandline.adapters.rpc.member_key import MemberKey
from strandline.adapters.system.crash_points import defect_point
from strandline.adapters.zookeeper.security.pictures import (
    group_config_picture,
    needed_pictures,
    quota_picture,
)
from strandline.adapters.zookeeper.security.security_watch import SecurityWatch
from strandline.adapters.zookeeper.set_back import SetBack, until_set_back
from strandline.adapters.zookeeper.znodes import UnreadableZnode
from strandline.broker.core.election.silence import Report
from strandline.broker.election.balancing import Balancing
from strandline.broker.election.elector import Elector
from strandline.broker.election.handover import Handover
from strandline.broker.events.replica_events import EventRecorder
from strandline.broker.membership.registration import SessionRegistration, join_cluster
from strandline.broker.membership.silence import SilenceWatch
from strandline.broker.membership.suspicion import Suspicion
from strandline.broker.replicas.epoch_source import compare_epoch, known_epoch, raise_epoch
from strandline.broker.replicas.leadership import Leadership
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.replicas.replica import Replica
from strandline.broker.replicas.session_context import SessionContext
from strandline.broker.replication.follower_end import LeaderStream, ReplicaStream
from strandline.broker.replication.incoming import IncomingCopies
from strandline.broker.state_changes.notices import NoticeReceiver
from strandline.broker.state_changes.receiver import StateChangeReceiver
from strandline.broker.state_changes.reconciler import Reconciler
from strandline.broker.state_changes.sender import StateChangeSender
from strandline.errors import StrandlineError
from strandline.host import ProbeResult
from strandline.ids import BrokerId, LeaderEpoch, PartitionKey
from strandline.ports import ConnectionLost, Coordination, LinkState, NoNode, SessionEnded, Transport
from strandline.security.authorizer import Authorizer
from strandline.security.login.authenticator import Authenticator
from strandline.security.quotas.bill import ClientQuotas
from strandline.tasks import contained
from strandline.vocabulary.configs.groups import KnownGroupConfigs
from strandline.vocabulary.metadata import Endpoint, Registration
from strandline.vocabulary.replication import Hello, SilenceQuestion

logger = structlog.get_logger(__name__)

UNREADABLE_PAUSE_S = 1.0
"""Pause before the next session if a znode that every session needs is unreadable."""
FULL_RECONCILE_EVERY = 24
"""Rounds of the reconcile loop between two readings of every topic."""


class SessionOver(Exception):
    """Ends the session's TaskGroup: the session ended, or the broker shuts down."""


class BrokerSession:
    """The broker's work in one ZooKeeper session. Fulfils `session_port.Session`."""

    def __init__(
        self,
        manager: ReplicaManager,
        coordination: Coordination,
        endpoint: Endpoint,
        open_stream: Callable[[Endpoint], Awaitable[ReplicaStream]],
        recorder: EventRecorder,
        key: MemberKey,
        authorizer: Authorizer,
        authenticator: Authenticator,
        quotas: ClientQuotas,
        group_configs: KnownGroupConfigs,
        transport: Transport,
    ) -> None:
        self.coordination = coordination
        self.recorder = recorder
        self.cluster_id = ""
        self.was_set_back = False
        """The session ended because ZooKeeper was older than what this broker had seen."""
        self._connected_again = asyncio.Event()
        self._manager = manager
        self._settings = manager.settings
        self._clock = manager.clock
        self._open_stream = open_stream
        self._key = key
        self._copies = IncomingCopies(self._settings.reassignment_incoming_bytes_per_s, self._clock)
        self._streams: dict[BrokerId, LeaderStream] = {}
        self._following: dict[PartitionKey, BrokerId] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._loop = asyncio.get_running_loop()
        self.registration = SessionRegistration(
            coordination, manager.folder, self._settings, self._clock, endpoint
        )
        context = SessionContext(manager, coordination, self.registration, recorder)
        self._transport = transport
        self._suspicion = Suspicion(manager.peers, self._probe, self._ask, self._clock)
        self._silence = SilenceWatch(
            manager.me,
            manager.peers,
            manager.hearing,
            self._ask,
            lambda: [leader for leader, stream in self._streams.items() if stream.follows],
            self._clock,
            self._settings.leader_silence_ms / 1000,
        )
        self._sender = StateChangeSender(context)
        self._elector = Elector(context, self._sender, self._suspicion)
        self.vacant = self._elector.vacant
        self._handover = Handover(context)
        self._receiver = StateChangeReceiver(context, self.vacant)
        self._reconciler = Reconciler(context, self._receiver.executor)
        self._balancing = Balancing(context, self._handover, self._suspicion)
        self._notices = NoticeReceiver(context, self.vacant, self._balancing.asked)
        self._security = SecurityWatch(
            coordination,
            lambda reader: [
                *needed_pictures(reader, authorizer, authenticator),
                quota_picture(reader, quotas),
                group_config_picture(reader, group_configs),
            ],
            self._clock,
        )

    async def run(self, *, on_serving: Callable[[], None]) -> None:
        """Serves until the session ends (returns) or this broker may not continue (raises SettingsError)."""
        try:
            await contained(self._serve(on_serving))
        except* (SessionEnded, SessionOver, ConnectionLost, UnreadableZnode) as group:
            logger.warning(
                "session over: this broker leads nothing until it has another",
                broker=self._manager.me,
                reasons=sorted({repr(e) for e in group.exceptions}),
            )
            self.was_set_back = group.subgroup(SetBack) is not None
            if group.subgroup(UnreadableZnode) is not None:
                await self._clock.sleep(UNREADABLE_PAUSE_S)
        finally:
            self._manager.pulse.unlisten(self._beat)
            for stream in self._streams.values():
                self._manager.hearing.remove(stream)
            self._manager.end_session()

    async def _serve(self, on_serving: Callable[[], None]) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            tasks.create_task(self._until_ended())
            tasks.create_task(self._until_set_back())
            self.cluster_id = await join_cluster(
                self.coordination, self._manager.folder, self._manager.host.new_id
            )
            await self._key.read(self.coordination)
            await self._security.open()
            self._manager.load()
            await raise_epoch(self.coordination, known_epoch(self._manager.all()))
            await self.registration.register()
            live = await self.registration.read_live()
            self._manager.session = self  # from now on clients hear of the cluster: whole, or not at all
            self._manager.peers.live_changed(live)
            self.registration.live = self._manager.live
            self.coordination.on_state(self._link_changed)
            tasks.create_task(self._compare_epochs())
            tasks.create_task(self.registration.watch(self._live_changed))
            tasks.create_task(self.registration.keep_lease())
            tasks.create_task(self._sender.run())
            # A broker that starts drains its queue before it serves.
            await self._notices.open()
            await self._receiver.open(self.registration.own.epoch)
            tasks.create_task(self._receiver.run())
            await self._receiver.drain()
            await self._compare()
            for task in (self._notices.run(), self._elector.run(), self._security.run()):
                tasks.create_task(task)
            tasks.create_task(self._reconcile())
            for task in (self._suspicion.run(), self._silence.run()):
                tasks.create_task(task)
            self._manager.pulse.listen(self._beat)
            tasks.create_task(self._balancing.run())
            on_serving()

    async def _until_ended(self) -> None:
        await self.coordination.wait_ended()
        raise SessionOver

    async def _until_set_back(self) -> None:
        connect = partial(self._manager.host.connect_coordination, self._settings)
        await until_set_back(self.coordination, connect, self._clock)

    async def _compare_epochs(self) -> None:
        """Finds a ZooKeeper that was set back and has as many transactions again, so that it takes this
        session back: the epochs that it has given out are no fewer (CORRECTNESS E21)."""
        while True:
            await self._connected_again.wait()
            self._connected_again.clear()
            with contextlib.suppress(ConnectionLost):  # there will be another connection, or none
                await compare_epoch(self.coordination, known_epoch(self._manager.all()))

    # --- requests of the manager ---------------------------------------------------------------

    def exercise(self, leadership: Leadership) -> None:
        assert self._tasks is not None
        self._tasks.create_task(leadership.run())

    def soon(self, callback: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(callback)

    def resign(self, replica: Replica, epoch: LeaderEpoch) -> None:
        assert self._tasks is not None
        self._tasks.create_task(self._resign(replica, epoch))

    async def _resign(self, replica: Replica, epoch: LeaderEpoch) -> None:
        await self._handover.resign(replica, epoch, reason="its log failed")
        self.vacant(replica)

    def follow(self, replica: Replica) -> None:
        """See `Session.follow`."""
        self.unfollow(replica)
        leader = replica.leader
        if leader < 0 or leader == self._manager.me:
            return
        stream = self._streams.get(leader)
        if stream is None:
            stream = self._streams[leader] = self._open_leader_stream(leader)
        self._following[replica.key] = leader
        stream.follow(replica)

    def follow_again(self, replica: Replica) -> None:
        stream = self._streams.get(replica.leader)
        if stream is None or self._following.get(replica.key) != replica.leader:
            self.follow(replica)
        else:
            stream.follow_again(replica)

    def unfollow(self, replica: Replica) -> None:
        leader = self._following.pop(replica.key, None)
        if leader is not None:
            self._streams[leader].unfollow(replica.key)

    def _open_leader_stream(self, leader: BrokerId) -> LeaderStream:
        assert self._tasks is not None
        registration = self.registration.own
        stream = LeaderStream(
            leader,
            Hello(registration.id, registration.epoch, leader, self.cluster_id, beats=True),
            open_stream=self._open_stream,
            endpoint=self._endpoint,
            on_lost=self.probe,
            on_answered=self._answered,
            on_refused=self._refused,
            copies=self._copies,
            settings=self._settings,
            host=self._manager.host,
            recorder=self.recorder,
        )
        self._tasks.create_task(stream.run())
        self._manager.hearing.add(stream)
        return stream

    def _beat(self, now: float) -> None:
        for stream in self._streams.values():
            stream.beat(now)
        self._silence.look(now)

    def _endpoint(self, broker: BrokerId) -> Endpoint | None:
        registration = self.registration.live.get(broker)
        return None if registration is None else registration.endpoint

    # --- events ------------------------------------------------------------------------------

    def _link_changed(self, state: LinkState) -> None:
        if state is not LinkState.ENDED:
            self._manager.link_changed(state is LinkState.CONNECTED)
        if state is LinkState.CONNECTED:
            self.registration.look_again()
            self._connected_again.set()

    def _live_changed(self, live: Mapping[BrokerId, Registration]) -> None:
        before = self._manager.live
        self._manager.peers.live_changed(live)

        def has_new_life(broker: BrokerId) -> bool:
            now, then = live.get(broker), before.get(broker)
            return now is not None and (then is None or now.epoch != then.epoch)

        for leader, stream in self._streams.items():
            if has_new_life(leader):
                stream.new_life()
        self._elector.live_changed(lambda replica: replica.leader not in live or has_new_life(replica.leader))

    def _refused(self, replica: Replica, error: StrandlineError) -> None:
        """Handles a refusal by a broker that this one took for the leader: finds out which broker leads."""
        logger.info(
            "no longer the leader",
            partition=str(replica.name),
            leader=replica.leader,
            reason=error.message,
        )
        self.vacant(replica)

    def _answered(self, leader: BrokerId) -> None:
        """Notes a message of a leader on its stream."""
        peers = self._manager.peers
        peers.answered(leader)
        if (registration := peers.live.get(leader)) is not None:
            peers.reached(registration.epoch)

    def probe(self, broker: BrokerId) -> None:
        self._suspicion.ask(broker)

    async def _probe(self, registration: Registration) -> ProbeResult:
        return await self._manager.host.probe(registration.endpoint, self._settings.probe_timeout_ms / 1000)

    async def _ask(self, other: Registration, about: Registration) -> Report | None:
        """What another broker knows of the silence of one; None if it does not answer."""
        question = SilenceQuestion(about.id, about.epoch)
        timeout_s = self._settings.probe_timeout_ms / 1000
        try:
            address = other.endpoint.address
            return Report(await self._transport.call(address, REPORT_SILENCE, question, timeout_s=timeout_s))
        except StrandlineError as error:
            logger.debug("no report about a silent broker", asked=other.id, reason=error.message)
            return None

    def peers_changed(self) -> None:
        self._suspicion.peers_changed()
        self._elector.look_over()

    # --- reconcile -----------------------------------------------------------------------------

    async def _reconcile(self) -> None:
        """Finds changes that were missed because a watch or a request was lost (CORRECTNESS E8, Q7)."""
        rounds = 0
        while True:
            await self._clock.sleep(self._settings.reconcile_ms / 1000)
            rounds += 1
            defect_point("session.reconcile")
            try:
                self.registration.look_again()
                self._elector.look_over(only_unnoticed=True)
                self._receiver.look_again()
                self._notices.look_again()
                self._security.look_again()
                await self._key.read(self.coordination)
                if rounds % FULL_RECONCILE_EVERY == 0:
                    await self._compare()
                    await self._security.compare()
            except ConnectionLost:
                logger.debug("not reconciled: no connection to ZooKeeper")

    async def _compare(self) -> None:
        """Creates the replicas that are assigned to this broker, and removes all others."""
        assigned = await self._reconciler.read_assignments()
        await self._reconciler.remove_strays(assigned, self.cluster_id, self.registration.own.epoch)

    # --- shutdown ----------------------------------------------------------------------------

    async def shut_down(self) -> None:
        """Hands leadership over; then the caller ends the session.

        Returns within `handover_ms` even if ZooKeeper does not answer: the logs have to be closed cleanly
        before the machine is switched off. The end of the session leads to elections as well, only later.
        """
        self._elector.accepting = False
        try:
            async with asyncio.timeout(self._settings.handover_ms / 1000):
                await self.registration.leave()
                await self._handover.leave_all()
        except* (ConnectionLost, SessionEnded, NoNode, TimeoutError) as group:
            logger.warning(
                "shutting down without a complete handover",
                handover_ms=self._settings.handover_ms,
                zookeeper=self.coordination.state.value,
                reasons=sorted({repr(e) for e in group.exceptions}),
            )
