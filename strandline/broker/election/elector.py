"""Fills vacancies: reads ZooKeeper, lets the core decide, and claims leadership in one `multi`.

Vacancies are handled in lots (`Vacancies.lot`), those of busy partitions first. The leaderships of a lot cost
one epoch, and pipelined reads and `multi`s, instead of sequential round trips for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile

import structlog

from strandline.adapters.system.crash_points import crash_point
from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import isr_znodes
from strandline.broker.core.election.election import (
    Ballot,
    Follow,
    KeepLeading,
    PublishStatement,
    Stand,
    Wait,
    claim,
    decide,
    deposes,
    handed_over_for,
    is_backed,
    others_after,
    vacancy_reason,
)
from strandline.broker.core.election.traffic import LOT_MAX
from strandline.broker.core.election.vacancies import Vacancies, Vacancy
from strandline.broker.core.state_changes.events import elected
from strandline.broker.facts.assignments import Assignments
from strandline.broker.membership.confirmation import QUIET_S
from strandline.broker.membership.suspicion import Reach
from strandline.broker.replicas.epoch_source import known_epoch, take_epoch
from strandline.broker.replicas.leader_znodes import notice_operation
from strandline.broker.replicas.log_lives import lives_counted, statement
from strandline.broker.replicas.replica import Replica
from strandline.broker.replicas.session_context import SessionContext
from strandline.broker.state_changes.sender import StateChangeSender
from strandline.errors import StorageBusy, StorageFailed
from strandline.ids import NO_BROKER, NO_EPOCH, BrokerEpoch, LeaderEpoch, PartitionKey
from strandline.ports import (
    Check,
    ConnectionLost,
    Create,
    Delete,
    MultiFailed,
    NoNode,
    Operation,
    SetData,
)
from strandline.tasks import in_slices, pipelined
from strandline.vocabulary.log_statements import Loss, current_statements, longest, loss, missing
from strandline.vocabulary.metadata import IsrMember, PartitionState

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Candidacy:
    """A claim about to be made, and the facts that it was decided on."""

    vacancy: Vacancy[Replica]
    ballot: Ballot
    version: int
    assigned_version: int
    """The version of the ballot's AR: no replica is elected by an outdated AR (CORRECTNESS E16)."""
    leader_node_stands: bool
    stand: Stand

    @property
    def lost(self) -> Loss | None:
        """The records that this leader will lack, as far as known; None for a clean claim."""
        if not self.stand.unclean:
            return None
        others = current_statements(self.ballot.state, self.ballot.live)
        mine = () if self.ballot.statement is None else (self.ballot.statement,)
        return loss(self.vacancy.replica.log.log_end_offset, (*others, *mine))


@dataclass(frozen=True, slots=True)
class _Won:
    """A claim that succeeded, and what it wrote."""

    candidacy: _Candidacy
    state: PartitionState


class Elector:
    """Runs the elections of one session. `run` is its task; the other methods never await."""

    def __init__(
        self,
        context: SessionContext,
        sender: StateChangeSender,
        reach: Reach,
    ) -> None:
        self._manager = context.manager
        self._registration = context.registration
        self._session = context.coordination
        self._recorder = context.recorder
        self._clock = context.clock
        self._sender = sender
        self._reach = reach
        self._step_s = context.settings.election_step_ms / 1000
        self._vacancies: Vacancies[Replica] = Vacancies(self._step_s, _traffic_at)
        self._waiting: dict[PartitionKey, str] = {}
        """The reason, as last logged, why a partition has no leader that this broker could follow."""
        self._wake = asyncio.Event()
        self.accepting = True
        """False while this broker shuts down: it hands leadership over and accepts none."""

    # --- noticing vacancies ------------------------------------------------------------------

    def vacant(self, replica: Replica, handed_over: bool = False) -> None:
        """Examines this partition soon; the waits of the ranks count from the first notice."""
        rank = 0 if handed_over else self._expected_rank(replica)
        now = self._clock.monotonic()
        self._vacancies.notice(replica.key, replica, now, handed_over=handed_over, rank=rank)
        self._wake.set()

    def look_over(self, *, only_unnoticed: bool = False) -> None:
        """Notices every replica here whose leader is dead or suspected, or whose log is damaged. A replica
        that waits because of a suspicion knows no leader, and is among them.

        With `only_unnoticed` one that is being examined, or will be, is not examined once more after that:
        nothing has changed, and thousands may be new here.
        """
        reachable = self._manager.peers.reachable
        for replica in self._manager:
            if only_unnoticed and replica.key in self._vacancies:
                continue
            if replica.leadership is None and (
                replica.leader not in reachable
                or replica.leader == self._manager.me
                or replica.log.corrupt is not None
            ):
                self.vacant(replica)

    def live_changed(self, gone: Callable[[Replica], bool]) -> None:
        """Notices the replicas whose leader's life ended, as `gone` says."""
        for replica in self._manager:
            if replica.leadership is None and gone(replica):
                self.vacant(replica)

    def _expected_rank(self, replica: Replica) -> int:
        """The rank if all reachable replicas are in sync."""
        peers = self._manager.peers
        before = takewhile(lambda broker: broker != self._manager.me, replica.assigned)
        lives = (peers.live.get(broker) for broker in before)
        return sum(each is not None and each.epoch not in peers.suspects for each in lives)

    # --- the task ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Contests the vacancies that are due. Runs until cancelled."""
        while True:
            now = self._clock.monotonic()
            if lot := self._vacancies.lot(now):
                await self._contest(lot)
                continue
            self._wake.clear()
            next_due = self._vacancies.next_due(now)
            try:
                async with asyncio.timeout(None if next_due is None else max(0.0, next_due - now)):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _contest(self, lot: list[Vacancy[Replica]]) -> None:
        looks = await pipelined(self._look, lot, in_flight_max=LOT_MAX)
        candidacies = await self._certain([each for each in looks if each is not None])
        if not candidacies:
            return
        try:
            crash_point("election.before_epoch")
            known = max(c.ballot.state.leader_epoch for c in candidacies)
            known = max(known, known_epoch(c.vacancy.replica for c in candidacies))
            epoch = await take_epoch(self._session, known)
            crash_point("election.after_epoch")
        except (ConnectionLost, znodes.UnreadableZnode) as error:
            logger.info("no epoch for an election", reason=str(error))
            self._later(*(candidacy.vacancy for candidacy in candidacies))
            return
        claims = await pipelined(partial(self._claim, epoch), candidacies, in_flight_max=LOT_MAX)
        # Each of these writes a file, and a disk may be slow. Acknowledgements do not wait for the whole lot.
        await in_slices(self._lead, [won for won in claims if won is not None], self._clock)

    async def _certain(self, candidacies: list[_Candidacy]) -> list[_Candidacy]:
        """The candidacies that may be claimed now.

        A leader that is still registered is deposed only if enough members of the ISR answer this broker: a
        broker that is cut off from its peers suspects all of them, and may not take their partitions.
        """
        doubtful = [c for c in candidacies if deposes(c.ballot)]
        members = {b for c in doubtful for b in others_after(c.ballot)}
        answering = await self._reach.answering(members) if doubtful else frozenset[BrokerEpoch]()
        backed = self._those_that_stand(candidacies, answering)
        await self._stop_following(backed)
        return self._those_that_stand(backed, answering)

    def _those_that_stand(
        self, candidacies: list[_Candidacy], answering: frozenset[BrokerEpoch]
    ) -> list[_Candidacy]:
        """The claimable ones. The others are examined again: the suspicion is over, or too few members
        answer."""
        suspects = self._manager.peers.suspects.lives
        standing: list[_Candidacy] = []
        for candidacy in candidacies:
            ballot = candidacy.ballot
            if deposes(ballot) and not is_backed(replace(ballot, suspects=suspects), answering):
                self._later(candidacy.vacancy)
            else:
                standing.append(candidacy)
        return standing

    async def _stop_following(self, candidacies: list[_Candidacy]) -> None:
        """Stops following the leaders of record, and waits until they no longer count on this broker's last
        acknowledgement (E1). A leader that gave its leadership up does not count on it."""
        quiet = now = self._clock.monotonic()
        for candidacy in candidacies:
            leader = candidacy.ballot.state.leader
            if leader not in (NO_BROKER, self._manager.me):
                self._manager.stop_following(candidacy.vacancy.replica)
                quiet = max(quiet, self._manager.peers.answered_at(leader) + QUIET_S)
        if quiet > now:
            await self._clock.sleep(quiet - now)

    def _later(self, *vacancies: Vacancy[Replica]) -> None:
        self._vacancies.later(vacancies, self._clock.monotonic())

    async def _look(self, vacancy: Vacancy[Replica]) -> _Candidacy | None:
        """Reads and decides. Returns None if there is nothing to claim now."""
        replica = vacancy.replica
        name = replica.name
        self._vacancies.look(vacancy)
        await self._manager.anchoring.anchor(replica)
        if (
            replica.reassignment is not None
        ):  # a leader that gives up a leadership that it should not have changes AR in the same write
            await self._read_assignment(replica)
        try:
            node = await self._session.get(znodes.isr(name.topic, name.partition))
        except NoNode:
            self._vacancies.drop(replica.key)  # deleted; its queue entry does the rest
            return None
        except ConnectionLost:
            self._later(vacancy)
            return None
        if self._manager.get(replica.key) is not replica:
            self._vacancies.drop(replica.key)
            return None
        try:
            state = isr_znodes.load_isr(name.topic, name.partition, node.data)
        except znodes.UnreadableZnode as error:  # no election is decided by an unreadable znode
            if self._waiting.get(replica.key) != error.message:
                logger.error("no election until a znode is repaired", reason=error.message)
            self._waiting[replica.key] = error.message
            self._later(vacancy)
            return None
        ballot = self._ballot(vacancy, state)
        leadership = replica.leadership
        if leadership is not None and leadership.epoch < ballot.state.leader_epoch:
            self._manager.step_down(replica, ballot.state)
        match decide(ballot):
            case KeepLeading():
                self._vacancies.settle(vacancy)
            case Follow(leader, epoch):
                self._vacancies.settle(vacancy)
                replica.learn_loss(ballot.state.lossy_epoch)
                self._manager.follow(replica, leader, epoch)
                if replica.log.corrupt is not None and self._me in ballot.state.isr:
                    _mark_whole(replica)
            case Wait(reason):
                self._vacancies.settle(vacancy)
                replica.learn_leader(NO_BROKER, ballot.state.leader_epoch)
                if self._waiting.get(replica.key) != reason:  # logged once, not at each examination
                    logger.info("waiting for a leader", partition=str(name), reason=reason)
                self._waiting[replica.key] = reason
            case PublishStatement(rank) as say:
                replica.learn_leader(NO_BROKER, ballot.state.leader_epoch)
                if self._is_time(vacancy, rank):
                    await self._say(vacancy, ballot, node.version, say)
            case Stand(rank) as stand:
                if self._is_time(vacancy, rank):
                    assigned_version = replica.assignment.version
                    try:
                        leader_node_stands = await self._leader_node_stands(replica)
                    except ConnectionLost:
                        self._later(vacancy)
                        return None
                    return _Candidacy(
                        vacancy, ballot, node.version, assigned_version, leader_node_stands, stand
                    )
        return None

    async def _leader_node_stands(self, replica: Replica) -> bool:
        """True if the last leader's znode exists. Only a candidate has to know."""
        try:
            await self._session.get(znodes.leader(replica.name.topic, replica.name.partition))
        except NoNode:
            return False
        return True

    def _is_time(self, vacancy: Vacancy[Replica], rank: int) -> bool:
        """True if it is this rank's turn. Otherwise the vacancy is due then, unless the broker shuts down."""
        if self.accepting:
            return self._vacancies.has_turn(vacancy, rank, self._clock.monotonic())
        self._vacancies.settle(vacancy)
        return False

    async def _say(
        self, vacancy: Vacancy[Replica], ballot: Ballot, version: int, say: PublishStatement
    ) -> None:
        """Writes this replica's log statement into `isr`. Notifies the replica that leads by them once all
        have written."""
        replica, name = vacancy.replica, vacancy.replica.name
        state = replace(ballot.state, statements=say.statements)
        path = znodes.isr(name.topic, name.partition)
        operations: list[Operation] = [
            SetData(path, isr_znodes.dump_isr(state), version),
            znodes.of_incarnation(replica.key.topic_id),
        ]
        best = longest(say.statements, ballot.assigned)
        if best is not None and best.broker != ballot.me and not missing(state, ballot.live, say.statements):
            ended = [(replica, state.leader_epoch)]
            operations.append(notice_operation(best.broker, ended, "all in-sync replicas are back"))
        try:
            await self._session.multi(operations)
        except (MultiFailed, ConnectionLost) as error:
            logger.info("what this replica has is not written yet", partition=str(name), reason=str(error))
            self._later(vacancy)
            return
        mine = say.statements[-1]
        logger.info(
            "cannot lead without a loss, and others what it has",
            partition=str(name),
            condition=mine.condition.value,
            last_epoch=mine.last_epoch,
            log_end=mine.log_end,
            high_watermark_known=mine.high_watermark,
        )
        self._vacancies.again(vacancy, self._clock.monotonic())

    def _ballot(self, vacancy: Vacancy[Replica], state: PartitionState) -> Ballot:
        replica = vacancy.replica
        return Ballot(
            assigned=replica.assigned,
            state=state,
            live=self._registration.live,
            suspects=self._manager.peers.suspects.lives,
            me=self._manager.me,
            lives=lives_counted(self._manager.folder, replica.log),
            log_whole=replica.whole,
            unclean_allowed=replica.config.unclean_leader_election_enable,
            leads_epoch=NO_EPOCH if replica.leadership is None else replica.leadership.epoch,
            handed_over=vacancy.handed_over,
            yielded=replica.yielded_epoch == state.leader_epoch,
            statement=statement(self._manager.folder, replica, state, self._me),
            permitted=replica.unclean_permit == state.leader_epoch,
            min_insync=replica.config.min_insync(replica.assignment.replication_factor),
        )

    @property
    def _me(self) -> IsrMember:
        return IsrMember(self._manager.me, self._registration.own.epoch)

    def _with_trail(self, candidacy: _Candidacy, state: PartitionState) -> PartitionState:
        """The claim with the trail that was found and its own event, so that another broker can record the
        event if this leader dies before it does."""
        ballot, replica, lost = candidacy.ballot, candidacy.vacancy.replica, candidacy.lost
        reason = vacancy_reason(ballot, cause=candidacy.stand.cause)
        event = elected(
            replica.name.topic,
            replica.key,
            state,
            at_ms=self._clock.wall_ms(),
            reason=reason if lost is None else f"{reason}; {lost}",
            lost=lost,
            by=replica.unclean_by
            if candidacy.stand.unclean and ballot.permitted
            else handed_over_for(ballot),
        )
        return replace(state, trail=replica.trail.extended(ballot.state.trail, event))

    async def _read_assignment(self, replica: Replica) -> None:
        """Reads the new AR of this replica. If it cannot be read now, the next examination reads it."""
        try:
            assignments = await Assignments.listed(self._session)
            assignment = await assignments.read(replica.name.topic, replica.key)
        except (NoNode, ConnectionLost):
            return
        except ValueError as error:
            logger.error("not an assignment", partition=str(replica.name), reason=str(error))
            return
        if self._manager.get(replica.key) is replica:
            self._manager.reconfigure(replica, assignment, replica.config)

    async def _claim(self, epoch: LeaderEpoch, candidacy: _Candidacy) -> _Won | None:
        """Claims in one `multi`: compares-and-sets the ISR, and replaces the old leader's znode. None if the
        claim is lost."""
        vacancy, ballot = candidacy.vacancy, candidacy.ballot
        replica, name = vacancy.replica, vacancy.replica.name
        registration = self._registration.own
        state = self._with_trail(
            candidacy, claim(ballot, epoch, registration.epoch, unclean=candidacy.stand.unclean)
        )
        leader_path = znodes.leader(name.topic, name.partition)
        assignment = Check(znodes.replicas(name.topic, name.partition), candidacy.assigned_version)
        incarnation = znodes.of_incarnation(replica.key.topic_id)
        operations: list[Operation] = [
            SetData(znodes.isr(name.topic, name.partition), isr_znodes.dump_isr(state), candidacy.version),
            assignment,
            incarnation,
        ]
        if candidacy.leader_node_stands:
            operations.append(Delete(leader_path))
        operations.append(
            Create(
                leader_path, znodes.dump_leader(registration.id, registration.epoch, epoch), ephemeral=True
            )
        )
        crash_point("election.before_claim")
        try:
            await self._session.multi(operations)
        except (MultiFailed, ConnectionLost) as error:
            logger.info("election lost", partition=str(name), epoch=epoch, reason=str(error))
            refused = operations[error.index] if isinstance(error, MultiFailed) else None
            if refused is incarnation:
                self._vacancies.drop(replica.key)  # created again; its queue entry does the rest
                return None
            if refused is assignment:
                await self._read_assignment(replica)
            self._vacancies.lost(vacancy, self._clock.monotonic())
            return None
        return _Won(candidacy, state)

    def _lead(self, won: _Won) -> None:
        """Leads after a claim that succeeded."""
        candidacy, state = won.candidacy, won.state
        vacancy, ballot = candidacy.vacancy, candidacy.ballot
        replica, name, epoch = vacancy.replica, vacancy.replica.name, state.leader_epoch
        crash_point("election.after_claim")
        self._vacancies.settle(vacancy)
        replica.trail.written(state.trail, self._recorder)
        noticed_ms = (self._clock.monotonic() - vacancy.noticed) * 1000
        self._manager.counts.broker.elected(noticed_ms, unclean=candidacy.stand.unclean)
        logger.info(
            "elected",
            partition=str(name),
            epoch=epoch,
            previous=ballot.state.leader,
            reason=state.trail[-1].reason,
            isr=list(state.isr_ids),
            unclean=candidacy.stand.unclean,
            log_end=replica.log.log_end_offset,
            high_watermark=replica.high_watermark,
            noticed_ms=round(noticed_ms, 1),
        )
        if (lost := candidacy.lost) is not None:
            logger.error(
                "unclean election: committed records may be lost from here on",
                partition=str(name),
                epoch=epoch,
                first=lost.first,
                certain_end=lost.end,
                certain=lost.certain,
                in_sync=list(ballot.state.isr_ids),
                cause=candidacy.stand.cause,
            )
        self._manager.lead(replica, state, candidacy.version + 1)
        crash_point("election.before_start_replica")
        self._sender.start_replicas(replica, epoch, "a new leader")


def _traffic_at(replica: Replica) -> float:
    return replica.traffic_at


def _mark_whole(replica: Replica) -> None:
    """Marks the log as whole, since a leader took it into the ISR. If the write fails, the next examination
    tries again."""
    try:
        replica.log.cutting.mark_whole()
    except (StorageFailed, StorageBusy) as error:
        logger.warning("not marked as whole", partition=str(replica.name), reason=error.message)
    else:
        logger.info("a damaged log was made whole by its leader", partition=str(replica.name))
