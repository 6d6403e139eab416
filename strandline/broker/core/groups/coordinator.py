"""The coordinator of the groups of one partition of `__consumer_offsets`: its public face.

It reads no clock and awaits nothing: each call takes the time and returns the effects to carry out, in order
(`effects`). A driver loads the log record by record, calls `loaded`, hands requests and results in, calls
`tick` when `next_deadline` has come, and calls `unload` when another broker leads the partition. A group is
known here from its first request on, and forgotten when it has nothing worth keeping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, assert_never

from strandline.broker.core.consumer_groups.records import ConsumerRecord
from strandline.broker.core.consumer_groups.topics import Topic
from strandline.broker.core.coordinators.effects import Call, Instant, call_of
from strandline.broker.core.groups import member_requests, rebalance
from strandline.broker.core.groups.assigned import consumers, either, migration, translation
from strandline.broker.core.groups.assigned.kinds import take_loaded
from strandline.broker.core.groups.effects import Effect
from strandline.broker.core.groups.isolation import Isolation
from strandline.broker.core.groups.limits import GroupLimits, check_group, check_join, cut
from strandline.broker.core.groups.offset_keeper import OffsetKeeper
from strandline.broker.core.groups.records import UnreadableGroupRecord
from strandline.broker.core.groups.requests import (
    Commit,
    ConsumerBeats,
    DeleteGroup,
    DeleteOffsets,
    DescribeConsumers,
    DescribeGroup,
    Join,
    ListGroups,
    NoteTopics,
    Report,
    Request,
    UnknownTopics,
    as_request,
)
from strandline.broker.core.groups.state.group import Group
from strandline.broker.core.groups.state.offsets import FIRST_LOADED, Offsets, SeenTopics
from strandline.broker.core.groups.state.read_topics import note_topics, unknown_topics
from strandline.broker.core.groups.state.replay import replay
from strandline.broker.core.groups.state.states import GroupState
from strandline.broker.core.groups.state.task_reports import report_tasks
from strandline.broker.core.groups.state.turn import Turn
from strandline.broker.core.groups.state_bytes import GROUP_BYTES, PendingMember
from strandline.broker.core.groups.stored import OffsetRecord, StoredRecord, read_key, read_record
from strandline.broker.core.groups.timers import Timer, TimerKind
from strandline.errors import (
    CoordinatorLoading,
    CoordinatorNotAvailable,
    GenerationOfNoGroup,
    GroupIdNotFound,
    InvalidRequest,
    StrandlineError,
    UnknownMemberId,
)
from strandline.records import Headers
from strandline.room import first_of_most
from strandline.security.principal import Principal
from strandline.vocabulary.asks import Answered, Asks
from strandline.vocabulary.configs.groups import NONE, GroupConfig
from strandline.vocabulary.groups import (
    JOINS,
    ConsumerBeat,
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeaveGroup,
    OffsetFetch,
    OffsetResults,
    ReportTasks,
    SyncGroup,
)


class GroupOffsets(NamedTuple):
    """What a group has committed."""

    group: str
    members: int
    offsets: Offsets


class Coordinator:
    """Each call is answered exactly once."""

    __slots__ = ("_groups", "_isolation", "_keeper", "_loaded", "_refusal", "_turn")

    def __init__(
        self, limits: GroupLimits, configs: Callable[[str], GroupConfig] = lambda group: NONE
    ) -> None:
        """`configs` has what each group has of its own; it may be another between two turns."""
        self._turn: Turn = Turn(limits, configs)
        self._groups: dict[str, Group] = {}
        self._isolation = Isolation(self._turn, self._groups)
        self._keeper = OffsetKeeper(self._turn, self._groups, self._isolation)
        self._loaded = FIRST_LOADED  # the position of the record that is loaded next
        self._refusal: StrandlineError | None = CoordinatorLoading("the groups are being read from the log")

    def states(self) -> list[GroupState]:
        """The state of each known group."""
        return [group.counted_state for group in self._groups.values()]

    def committed(self) -> Iterator[GroupOffsets]:
        """Each known group with its members and committed offsets, as they are when it is taken."""
        for group in self._groups.values():
            yield GroupOffsets(group.name, group.members_count, group.offsets)

    # --- loading and unloading ---------------------------------------------------------------

    def load(
        self,
        key: bytes,
        value: bytes | None,
        wall_ms: int,
        headers: Headers = (),
        producer_id: int | None = None,
    ) -> None:
        """Replay one record of the log, in the log's order. None is a tombstone; `wall_ms` is the record's
        own time, `producer_id` that of its transaction, if it is part of one. Markers are replayed by
        `transaction_ended`. Raises a StrandlineError, without any change, for a record that no coordinator
        writes."""
        read = read_key(key)
        try:
            record = read_record(read, value, headers)
            group = self._loading(record, wall_ms)
            replay(group, record, self._loaded, producer_id)
        except StrandlineError:
            raise
        except Exception as error:  # as in `Isolation`: the record is there at each start, on each broker
            raise UnreadableGroupRecord(
                f"group {read.group}: loading it failed with {error!r:.200}"
            ) from error
        self._loaded += 1
        if producer_id is not None:
            self._keeper.note_transaction(group.name, producer_id)
        if value is None:
            self._keeper.forget_if_new(group)

    def _loading(self, record: StoredRecord, wall_ms: int) -> Group:
        """The group of a record, as the coordinator had it that wrote the record."""
        name, known = record.group, self._groups.get(record.group)
        if isinstance(record, ConsumerRecord):
            group = known or Group(name, wall_ms, self._turn.state_bytes)
            consumers.load(group, record)
            self._groups[name] = group
            return group
        if known is not None and isinstance(record, OffsetRecord):
            return known
        if isinstance(record, OffsetRecord) or record.value is None:
            group = Group(name, wall_ms, self._turn.state_bytes)
        else:
            group = Group.loaded(record, record.value, self._turn.limits, self._turn.state_bytes)
        if known is not None:
            take_loaded(group, known)
        self._groups[name] = group
        return group

    def loaded(self, now: Instant) -> list[Effect]:
        """The log is read to its end: serve. Every member's session timeout starts anew.

        A generation without an assignment continues where it was: its members may join and sync again.
        """
        turn = self._turn
        turn.begin(now)
        self._refusal = None
        for group in list(self._groups.values()):
            self._isolation.run(group.name, partial(self._resume, group))
        turn.start(Timer(TimerKind.EXPIRY), turn.limits.offsets_expiry_check_ms)
        return turn.end()

    def _resume(self, group: Group) -> None:
        consumers.choose_kind(self._turn, group)
        if group.consumers is not None:
            consumers.resume(self._turn, group, group.consumers)
        elif group.recovered:
            rebalance.await_syncs(self._turn, group)
        else:
            for member in group.members.values():
                rebalance.restart_session(self._turn, group, member)
        if group.members and not group.leader:
            rebalance.begin(self._turn, group, "its leader is not among the members that were loaded", "")
        self._keeper.forget_if_new(group)

    def unload(self, error: StrandlineError) -> list[Effect]:
        """Another broker leads the partition: all waiting and later calls are answered with `error`.
        Writes in flight may be in the log or not; their results are ignored."""
        turn = self._turn
        turn.begin(turn.now)
        self._refusal = error
        for group in self._groups.values():
            for member in group.members.values():
                for call in member.calls():
                    turn.answer(call, error)
            if group.state is not GroupState.DEAD:
                group.become(GroupState.DEAD)
        for write_id in turn.writes_in_flight:
            self._isolation.run(turn.group_of(write_id), partial(turn.settle, write_id, error))
        turn.refuse_open(error)
        self._groups.clear()
        turn.timers.clear()
        return turn.end()

    # --- requests ----------------------------------------------------------------------------

    def handle(
        self, call: Call[Answered], request: Asks[Answered], now: Instant, by: Principal | None = None
    ) -> list[Effect]:
        """Handle one request. It is answered once, by these effects or by those of a later call. `by` is the
        caller if callers are distinguished: then it speaks only for members that it made (`owners`).

        join          Joined once the generation has begun and is in the log, or MemberIdGiven at once
        sync          the member's assignment (bytes) once the leader's is in the log
        heartbeat     None after at most `max_wait_ms`, or RebalanceInProgress, which has the reason, as
                      soon as a rebalance begins
        leave         a LeftMember for each, in the request's order, once it is in the log that they left
        both reports  None: each change is published
        commit        OffsetResults once the accepted offsets are in the log
        fetch         FetchedOffsets; only offsets that are in the log are visible
        unk. topics   the topics to look at, or None (`read_topics`)
        note topics   None
        describe      DescribedGroup
        list          a tuple of ListedGroup, by name
        delete        None once the tombstones are written
        del. offsets  OffsetResults once the tombstones are written

        Or with a StrandlineError. One that refuses the request itself comes at once, before any change.
        """
        turn = self._turn
        turn.begin(now, by)
        if self._refusal is not None:
            turn.answer(call, self._refusal)
            return turn.end()
        known = as_request(request)
        turn.open(call, known.group)
        self._isolation.run(known.group, partial(self._handle, call, known))
        return turn.end()

    def _handle(self, call: Call[Any], request: Request) -> None:
        turn, keeper = self._turn, self._keeper
        try:
            match request:
                case Join():
                    self._join(call_of(request, call), request)
                case ConsumerBeats():
                    self._beat(call_of(request, call), request)
                case SyncGroup():
                    either.sync(turn, self._find(request.group), call_of(request, call), request)
                case Heartbeat():
                    either.heartbeat(turn, self._find(request.group), call_of(request, call), request)
                case LeaveGroup():
                    group = self._find(request.group)
                    either.leave(turn, group, call_of(request, call), request)
                    keeper.forget_if_new(group)
                case Report():
                    either.report(turn, self._find(request.group), call_of(request, call), request)
                case ReportTasks():
                    report_tasks(turn, self._find(request.group), call_of(request, call), request)
                case Commit():
                    self._commit(call_of(request, call), request)
                case OffsetFetch():
                    check_group(request.group)
                    known = self._find(request.group) if request.group in self._groups else None
                    turn.answer(call_of(request, call), keeper.fetch(request, known))
                case UnknownTopics(name):
                    turn.answer(call_of(request, call), unknown_topics(self._find(name)))
                case NoteTopics(name, present):
                    note_topics(self._find(name), present)
                    turn.answer(call_of(request, call), None)
                case DescribeGroup(name):
                    turn.answer(call_of(request, call), self._known_classic(name).described())
                case DescribeConsumers(name):
                    turn.answer(call_of(request, call), consumers.describe(self._known(name)))
                case DeleteGroup(name):
                    keeper.delete(self._known(name), call_of(request, call))
                case DeleteOffsets():
                    keeper.delete_offsets(self._known(request.group), call_of(request, call), request)
                case ListGroups():
                    groups = sorted(self._groups.values(), key=lambda group: group.name)
                    turn.answer(call_of(request, call), tuple(group.listed() for group in groups))
                case _:
                    assert_never(request)
        except StrandlineError as error:
            turn.answer(call, error)

    def _join(self, call: Call[JoinAnswer], join: Join) -> None:
        request = join.request
        check_join(request, self._turn.limits)
        host = cut(join.host)
        if not request.member and request.instance is None:
            self._make_room_for_id(host)
        group = self._find_or_make(request.group, may_make=not request.member)
        if group.consumers is not None and not group.vacant:
            translation.join(self._turn, group, group.consumers, call, join, host)
            return
        if group.consumers is not None:
            consumers.end(self._turn, group, group.consumers)
        try:
            member_requests.join(self._turn, group, call, request, join.new_member_id, host)
        finally:
            self._keeper.forget_if_new(group)

    def _beat(self, call: Call[ConsumerBeat], asked: ConsumerBeats) -> None:
        request = asked.request
        group = self._groups.get(request.group)
        if group is None and request.epoch != JOINS:
            check_group(request.group)
            raise GroupIdNotFound(f"group {request.group} is not known")
        group = self._find_or_make(request.group, may_make=True)
        try:
            if group.consumers is None:
                migration.check_converts(self._turn, group, request)
            consumers.heartbeat(self._turn, group, call, asked)
        finally:
            self._keeper.forget_if_new(group)

    def _make_room_for_id(self, host: str) -> None:
        """Ends the time of an id with which no member has joined, if there are too many of them in all
        groups."""
        given = self._turn.state_bytes.given
        if len(given) >= self._turn.limits.ids_max:
            asking = PendingMember(self._turn.by, host)
            taken = ((of, each.caller) for of, each in given.items())
            timer = Timer(TimerKind.PENDING, *first_of_most(taken, asking.caller))
            self._turn.timers.cancel(timer)
            self._isolation.run(timer.group, partial(self._due, timer))

    def _commit(self, call: Call[OffsetResults], commit: Commit) -> None:
        request = commit.request
        check_group(request.group)
        self._keeper.check_size("commit", request.offsets)
        if request.group not in self._groups and request.generation >= 0:
            raise GenerationOfNoGroup(
                f"group {request.group} is not known; it has no generation {request.generation}"
            )
        group = self._find_or_make(request.group, may_make=True)
        try:
            self._keeper.fence(group, commit)
            self._keeper.commit(group, call, commit)
        finally:
            self._keeper.forget_if_new(group)

    # --- calls of the driver -----------------------------------------------------------------

    @property
    def mark(self) -> int:
        """The last write that was requested, for `SeenTopics`."""
        return self._turn.last_write

    def follow_topics(self, topics: SeenTopics, now: Instant) -> list[Effect]:
        """Remove the offsets of topics that are gone or were made anew. No call waits for it."""
        self._turn.begin(now)
        if self._refusal is None:
            self._keeper.follow_topics(topics)
        return self._turn.end()

    def subscribed(self) -> list[str]:
        """The topics that members of the consumer protocol subscribe to, by name."""
        groups = (group.consumers for group in self._groups.values() if group.consumers is not None)
        return sorted({topic for each in groups for topic in each.core.subscribed()})

    def unseen(self, group: str) -> list[str]:
        """Topics that have to be looked at before a member joins this group, or goes on in it."""
        found = self._groups.get(group)
        return [] if found is None else migration.unseen(self._turn, found)

    def needed_for(self, join: JoinGroup) -> list[str]:
        """Topics that have to be looked at before this join; none if its group has a leader."""
        found = self._groups.get(join.group)
        if found is None or found.consumers is None or found.vacant:
            return []
        return translation.needed_for(found.consumers, join)

    def pattern_of(self, group: str, member: str) -> str:
        """The pattern of a member; empty if there is no such member, or it has none."""
        found = self._groups.get(group)
        if found is None or found.consumers is None or member not in found.consumers.core.members:
            return ""
        return found.consumers.core.members[member].pattern

    def see_topics(self, topics: Mapping[str, Topic | None], now: Instant) -> list[Effect]:
        """Subscribed topics as they are now, None for each that does not exist. No call waits for it."""
        turn = self._turn
        turn.begin(now)
        for group in list(self._groups.values()):
            if self._refusal is None and group.consumers is not None:
                see = partial(consumers.see_topics, turn, group, group.consumers, topics)
                self._isolation.run(group.name, see)
        return turn.end()

    def appended(self, write_id: int, error: StrandlineError | None, now: Instant) -> list[Effect]:
        """The result of an Append: None if it is committed. Results come exactly once, in any order; after
        `unload` they no longer matter."""
        turn = self._turn
        turn.begin(now)
        self._isolation.run(turn.group_of(write_id), partial(turn.settle, write_id, error))
        return turn.end()

    def transaction_ended(self, producer_id: int, now: Instant, *, commit: bool) -> list[Effect]:
        """The log has a committed marker of this producer: the offsets of its transaction count from now on,
        or are dropped. To be called after the results of its writes that precede the marker, and for markers
        that are loaded as well."""
        self._turn.begin(now)
        self._keeper.end_transaction(producer_id, commit=commit)
        return self._turn.end()

    def tick(self, now: Instant) -> list[Effect]:
        """Run the timers that are due."""
        turn = self._turn
        turn.begin(now)
        while (timer := turn.timers.pop(now.monotonic_s)) is not None:
            if timer.kind is TimerKind.EXPIRY:
                self._keeper.expire()
            else:
                self._isolation.run(timer.group, partial(self._due, timer))
        return turn.end()

    def next_deadline(self) -> float | None:
        """The monotonic time at which to call `tick`; None: not before the next call. Any call may move it
        closer."""
        return self._turn.timers.next_deadline()

    def _due(self, timer: Timer) -> None:
        group = self._groups[timer.group]
        match timer.kind:
            case TimerKind.SESSION:
                member_requests.session_due(self._turn, group, group.members[timer.member])
            case TimerKind.HEARTBEAT:
                member_requests.heartbeat_due(self._turn, group, group.members[timer.member])
            case TimerKind.PENDING:
                member_requests.pending_due(self._turn, group, timer.member)
                self._keeper.forget_if_new(group)
            case TimerKind.BARRIER:
                rebalance.barrier_due(self._turn, group)
            case TimerKind.SYNC:
                rebalance.sync_due(self._turn, group)
            case TimerKind.CONSUMER_HEARTBEAT:
                consumers.heartbeat_due(self._turn, group, timer.member)
            case TimerKind.CONSUMER_SESSION:
                consumers.session_due(self._turn, group, timer.member)
            case TimerKind.REVOCATION:
                consumers.revocation_due(self._turn, group, timer.member)
            case TimerKind.CLASSIC_JOIN:
                consumers.join_due(self._turn, group, timer.member)
            case TimerKind.CLASSIC_SYNC:
                consumers.sync_due(self._turn, group, timer.member)

    # --- groups ------------------------------------------------------------------------------

    def _find(self, name: str) -> Group:
        """The group of a member. Raises InvalidGroupId, UnknownMemberId; CoordinatorNotAvailable for a Dead
        one (`Isolation`)."""
        group = self._groups.get(name)
        if group is None:
            check_group(name)
            raise UnknownMemberId(f"group {name} is not known, so it has no such member")
        if group.state is GroupState.DEAD:
            raise CoordinatorNotAvailable(group.reason)
        return group

    def _known(self, name: str) -> Group:
        """The group, also a Dead one, for administration. Raises InvalidGroupId, GroupIdNotFound."""
        group = self._groups.get(name)
        if group is None:
            check_group(name)
            raise GroupIdNotFound(f"group {name} is not known")
        return group

    def _known_classic(self, name: str) -> Group:
        """Raises GroupIdNotFound for a group of the consumer protocol, too, as Kafka does."""
        group = self._known(name)
        if group.consumers is not None:
            raise GroupIdNotFound(f"group {name} is of the consumer protocol: describe it as such")
        return group

    def _find_or_make(self, name: str, *, may_make: bool) -> Group:
        group = self._groups.get(name)
        if group is not None or not may_make:
            return self._find(name)
        most = self._turn.limits.groups_max
        if len(self._groups) >= most:
            raise InvalidRequest(
                f"group {name} would be one more than the {most} that this coordinator keeps", limit=most
            )
        self._turn.state_bytes.check(GROUP_BYTES, f"a new group {name}")
        group = self._groups[name] = Group(name, self._turn.now.wall_ms, self._turn.state_bytes)
        return group
