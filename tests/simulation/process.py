"""One broker's process in the model: roles, following and elections, after the broker's
`replicas/manager.py`, `replication/follower_end.py`, `election/elector.py` and `election/handover.py`, around
the real cores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from strandline.broker.core.election.election import (
    Ballot,
    Follow,
    KeepLeading,
    Stand,
    claim,
    decide,
    deposes,
    is_backed,
    successor,
)
from strandline.broker.core.election.suspects import Suspects
from strandline.ids import NO_BROKER, NO_EPOCH, BrokerEpoch, BrokerId, LeaderEpoch
from strandline.vocabulary.metadata import PartitionState, Registration
from tests.simulation.coordination import Write
from tests.simulation.leading import ModelLeadership, StreamServer
from tests.simulation.rules import Rule
from tests.simulation.streams import Progress, Push, Stream, Subscribe, Unsubscribe
from tests.simulation.truth import Violation

if TYPE_CHECKING:
    from tests.simulation.world import Machine, World


@dataclass(frozen=True, slots=True)
class Following:
    """A subscription from the follower's side."""

    id: int
    epoch: LeaderEpoch


@dataclass(slots=True)
class Candidacy:
    ballot: Ballot
    version: int
    sent: bool = False


class Process:
    """The state that a broker loses when it is killed."""

    def __init__(self, machine: Machine, world: World) -> None:
        self.machine = machine
        self.world = world
        self.me = machine.broker
        self.log = machine.log
        self.life: BrokerEpoch | None = None
        """The registration made by this process that it still believes in."""
        self.live: Mapping[BrokerId, Registration] = {}
        self.suspects = Suspects()
        self.leader: BrokerId = NO_BROKER
        self.leader_epoch: LeaderEpoch = NO_EPOCH
        self.high_watermark = min(machine.checkpoint, self.log.end)
        self.leadership: ModelLeadership | None = None
        self.server = StreamServer(self)
        self.links: dict[BrokerId, Stream] = {}
        self.target: BrokerId | None = None
        """Whom to fetch from. A leader of whom this process only read is known, and not followed."""
        self.following: Following | None = None
        self.ask_again = False
        self.vacant = False
        self.handed_over = False
        self.candidacy: Candidacy | None = None
        self.resigning = False
        self.unsure = False
        """True while it is unknown whether the resignation was written."""
        self.leaving = False
        self._next_id = 1
        self._left: list[ModelLeadership] = []

    # --- the session -------------------------------------------------------------------------

    def register(self) -> None:
        self.life = self.world.zookeeper.register(self.me)
        self.machine.lives.add(self.life)
        self.live = self.world.zookeeper.live
        self.vacant = True

    def end_session(self) -> None:
        """Lead nothing, believe in no leader, start over (DESIGN §3)."""
        self.life = None
        self._end()
        self.leader = NO_BROKER
        self.target, self.following, self.candidacy, self.resigning = None, None, None, False
        self.ask_again = self.vacant = self.handed_over = False
        self.suspects.clear()
        for stream in self.links.values():
            stream.open_below = False
        self.links.clear()

    def look_at_the_living(self) -> None:
        """Read the registered brokers, and find out whether this process is still one of them."""
        if self.life is None or not self.world.zookeeper.has_session(self.me, self.life):
            self.end_session()
            return
        before, self.live = self.live, self.world.zookeeper.live
        self.suspects.registered({registration.epoch for registration in self.live.values()})
        if self.leadership is not None:
            self.leadership.live_changed(self.live, self.suspects.lives)
            return
        was, now = before.get(self.leader), self.live.get(self.leader)
        if was is None or now is None or was.epoch != now.epoch:
            self.vacant = True

    def suspect(self, broker: BrokerId) -> None:
        """Its port refused a connection."""
        registration = self.live.get(broker)
        if registration is not None and self.suspects.refused(registration.epoch, self.world.now):
            self._suspects_changed()

    def heard(self, life: BrokerEpoch | None) -> None:
        """A word of this life, after which it is no suspect."""
        if life is not None and self.suspects.reached(life):
            self._suspects_changed()

    def probe_again(self) -> bool:
        """Probe the ports of the suspects that are due; False if there are none. A hanging process is
        silent."""
        if self.world.broken is Rule.PROBE_SUSPECTS_AGAIN:
            return False
        due = self.suspects.due(self.world.now)
        for life in due:
            if life in self.world.answering:
                self.heard(life)
        return bool(due)

    def _suspects_changed(self) -> None:
        if self.leadership is not None:
            self.leadership.live_changed(self.live, self.suspects.lives)
            return
        registration = self.live.get(self.leader)
        self.vacant = self.vacant or registration is None or registration.epoch in self.suspects

    # --- elections ---------------------------------------------------------------------------

    def look_if_notified(self) -> bool:
        """Look into the partition if there is a reason to; False if there is none."""
        notice, self.machine.notice = self.machine.notice, NO_EPOCH
        if notice == NO_EPOCH and not self.vacant:
            return False
        if (
            self.leadership is None
            or self.vacant
            or (notice > self.leadership.epoch and self.world.broken is not Rule.TELL_THE_DEPOSED)
        ):
            self.look()
        return True

    def look(self) -> None:
        """Read `isr` and decide. How long each rank waits is left to the walk."""
        self.vacant = False
        zookeeper = self.world.zookeeper
        ballot = Ballot(
            assigned=self.world.assigned,
            state=zookeeper.state,
            live=self.live,
            suspects=self.suspects.lives,
            me=self.me,
            lives=frozenset(self.machine.lives),
            log_whole=True,
            unclean_allowed=False,
            leads_epoch=NO_EPOCH if self.leadership is None else self.leadership.epoch,
            handed_over=self.handed_over,
            min_insync=self.world.min_insync,
        )
        self.handed_over = False
        if self.leadership is not None and self.leadership.epoch < zookeeper.state.leader_epoch:
            self.step_down(zookeeper.state)
        match decide(ballot):
            case KeepLeading():
                return
            case Follow(leader, epoch):
                self.follow(leader, epoch)
            case Stand():
                if not self.leaving:
                    self.candidacy = Candidacy(ballot, zookeeper.version)
            case _:
                self.learn_leader(NO_BROKER, ballot.state.leader_epoch)

    def claim(self) -> None:
        """Take an epoch and send the `multi`."""
        candidacy = self.candidacy
        assert candidacy is not None and self.life is not None
        now_known = replace(candidacy.ballot, suspects=self.suspects.lives)
        if deposes(candidacy.ballot) and not is_backed(now_known, self.world.answering):
            self.candidacy, self.vacant = None, True  # it is heard of again, or too few others are
            return
        candidacy.sent = True
        epoch = self.world.zookeeper.next_epoch()
        state = claim(candidacy.ballot, epoch, self.life, unclean=False)

        def reply(version: int | None) -> None:
            self.candidacy = None
            if version is None:
                self.vacant = True  # another broker was faster, or the outcome is unknown
            else:
                self._lead(state, version)

        self.world.zookeeper.writes.append(Write(self.me, self.life, state, candidacy.version, reply))

    def _lead(self, state: PartitionState, version: int) -> None:
        if not self.learn_leader(self.me, state.leader_epoch):
            return
        self._end()
        self._unfollow()
        self.target = None
        if self.world.broken is not Rule.WRITE_EPOCH_AT_ELECTION:
            self.log.epochs.assign(state.leader_epoch, self.log.end)
        self.world.truth.elected(self.me, state.leader_epoch, self.log)
        self.leadership = ModelLeadership(self, state, version)
        self.world.start_replicas(self.me, self.leader_epoch)
        self.leadership.turn()

    # --- roles -------------------------------------------------------------------------------

    def learn_leader(self, leader: BrokerId, epoch: LeaderEpoch) -> bool:
        if epoch < self.leader_epoch:
            return False
        self.leader, self.leader_epoch = leader, epoch
        return True

    def follow(self, leader: BrokerId, epoch: LeaderEpoch) -> None:
        known = (self.leader, self.leader_epoch)
        if not self.learn_leader(leader, epoch):
            return
        if self.leadership is not None:
            self._end()
        elif known == (leader, epoch) and self.target == leader:
            self.ask_again = self.following is None
            return
        self._unfollow()
        self.target = leader
        self._fetch(checked=self.world.broken is not Rule.CHECK_AT_EACH_EPOCH or leader != known[0])

    def step_down(self, state: PartitionState) -> None:
        """ZooKeeper has another epoch."""
        if state.leader not in (self.me, NO_BROKER):
            self.follow(state.leader, state.leader_epoch)
            return
        self.retire(NO_BROKER)
        self.vacant = True

    def retire(self, successor_named: BrokerId) -> None:
        if successor_named != NO_BROKER:
            self.follow(successor_named, self.leader_epoch)
            return
        self._end()
        self.leader = NO_BROKER

    def _end(self) -> None:
        if self.leadership is not None:
            leadership, self.leadership = self.leadership, None
            leadership.end()
            if self.world.broken is Rule.QUEUE_DIES_WITH_EPOCH:
                self._left.append(leadership)
        self.resigning = self.unsure = False

    def resign(self, *, leave: bool) -> None:
        """Send the `multi` of a handover: no leader, the same members; but a broker that shuts down may
        `leave`."""
        leadership, zookeeper = self.leadership, self.world.zookeeper
        assert leadership is not None and self.life is not None
        state = zookeeper.state
        if (state.leader, state.leader_epoch) != (self.me, leadership.epoch):
            self.step_down(state)
            return
        named = successor(state, self.world.assigned, self.live)
        self.resigning = True

        def reply(version: int | None) -> None:
            self.resigning, self.unsure = False, version is None
            if version is not None and not leadership.ended:
                if named is not None:
                    self.world.notify(named, leadership.epoch, handed_over=True)
                self.retire(NO_BROKER if named is None else named)

        others = tuple(member for member in state.isr if member.broker != self.me)
        members = others if leave and len(others) >= self.world.min_insync else state.isr
        resigned = PartitionState(NO_BROKER, leadership.epoch, members)
        zookeeper.writes.append(Write(self.me, self.life, resigned, zookeeper.version, reply))

    def lead_on(self) -> None:
        """It is not handed over after all. If a write may have come through, ZooKeeper is asked first."""
        leadership, state = self.leadership, self.world.zookeeper.state
        assert leadership is not None and not self.resigning
        if self.unsure and (state.leader, state.leader_epoch) != (self.me, leadership.epoch):
            self.step_down(state)
            return
        leadership.draining = self.unsure = False

    # --- following ---------------------------------------------------------------------------

    def raise_watermark(self, high_watermark: int) -> None:
        reached = min(high_watermark, self.log.end)
        if reached > self.high_watermark:
            self.world.truth.exposed(self.me, self.log, reached)
            self.high_watermark = reached
            for leadership in self._left:
                leadership.watermark_after_the_end(reached)

    def connected(self, stream: Stream) -> None:
        self.links[stream.leader] = stream
        if self.target == stream.leader:
            self._fetch(checked=True)

    def disconnected(self, leader: BrokerId) -> None:
        """The stream broke, at this end."""
        if self.links.pop(leader, None) is not None and self.target == leader:
            self.following = None

    def fetch_again(self) -> None:
        self.ask_again = False
        if self.following is None:
            self._fetch(checked=True)

    def _unfollow(self) -> None:
        if self.following is not None and self.target is not None:
            self.links[self.target].up.append(Unsubscribe(self.following.id))
            self.following = None

    def _fetch(self, *, checked: bool) -> None:
        self._unfollow()
        stream = None if self.target is None else self.links.get(self.target)
        if stream is None:
            return
        if self.world.broken is Rule.TRUNCATE_BY_EPOCH:
            self._cut(self.high_watermark)
            checked = False
        self.following = Following(self._next_id, self.leader_epoch)
        self._next_id += 1
        stream.up.append(
            Subscribe(
                self.following.id, self.leader_epoch, self.log.end, self.log.last_epoch, checked=checked
            )
        )

    def receive(self, stream: Stream) -> None:
        """Take the next push: it is applied only if its subscription is the one in force."""
        push = stream.down.popleft()
        sender = self.live.get(stream.leader)
        self.heard(None if sender is None else sender.epoch)
        following = self.following
        if following is None or self.target is None:
            return
        in_force = (
            push.id == following.id
            and self.leader_epoch == following.epoch
            and self.links.get(self.target) is stream
        )
        if not in_force and self.world.broken is not Rule.DROP_OTHER_SUBSCRIPTIONS:
            return
        if push.refused:
            self.following = None
            if push.refused == "unknown epoch":
                self.ask_again = True
            else:
                self.vacant = True
        elif push.diverging is not None:
            self._diverged(push)
        else:
            self._append(stream, following, push)

    def _append(self, stream: Stream, following: Following, push: Push) -> None:
        log = self.log
        if push.records:
            if push.base != log.end or push.records[0].epoch < log.last_epoch:
                self._fetch(checked=True)  # corrupt: start the flow anew
                return
            log.append(push.records)
            self.world.truth.appended(self.me, push.base, push.records)
            stream.up.append(Progress(following.id, log.end))
        if push.high_watermark >= 0:
            self.raise_watermark(push.high_watermark)

    def _diverged(self, push: Push) -> None:
        assert push.diverging is not None
        epoch, end = push.diverging
        if self.world.broken is Rule.CUT_BEFORE_WATERMARK:
            self.raise_watermark(push.high_watermark)
        own_epoch, own_end = self.log.end_offset_for(epoch)
        if epoch < 0 or own_epoch < 0:
            self._cut(0)
        elif self.world.broken is Rule.ASK_UNTIL_EPOCHS_AGREE:
            self._cut(end)
            self._fetch(checked=False)
            return
        else:
            self._cut(min(end, own_end))
        self._fetch(checked=True)

    def _cut(self, offset: int) -> None:
        """While elections are clean, no leader ever asks for a cut below the HW (T11)."""
        if offset < self.high_watermark:
            raise Violation(f"T11: {self.me} is to cut at {offset}, below its HW {self.high_watermark}")
        self.log.truncate_to(offset)
        # Outside the ISR a replica may still cut, by a leader of an older epoch, what a later one commits.
        self.world.truth.check_members()
