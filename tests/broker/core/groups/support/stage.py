"""A stage for a coordinator: carries its effects out, with a log in memory and a clock set by hand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from strandline.broker.core.coordinators.effects import Answer, Append, Call, Failed, Instant
from strandline.broker.core.groups.coordinator import Coordinator
from strandline.broker.core.groups.effects import Effect, EventKind, GroupEvent, Publish
from strandline.broker.core.groups.limits import GroupLimits
from strandline.broker.core.groups.requests import (
    Commit,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    Join,
    Report,
)
from strandline.errors import CoordinatorNotAvailable, NotCoordinator, StrandlineError, UnstableOffsetCommit
from strandline.ids import TopicPartition
from strandline.records import Headers
from strandline.security.principal import Principal
from strandline.vocabulary.asks import Asks
from strandline.vocabulary.configs.groups import Bounds, GroupBounds
from strandline.vocabulary.groups import (
    CommittedOffset,
    DescribedGroup,
    FetchedOffsets,
    GroupProtocol,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    LeftMember,
    MemberIdGiven,
    OffsetCommit,
    OffsetFetch,
    OwnershipChange,
    ReportOwnership,
    SyncGroup,
)
from strandline.vocabulary.log import NO_MARKER, ProducerIdentity, Transactional

GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
BEGIN_MS = 1_700_000_000_000
HOST = "/127.0.0.1"

LIMITS = GroupLimits(
    group_initial_rebalance_delay_ms=0,
    group_session_timeout_ms_min=500,
    group_session_timeout_ms_max=1_800_000,
    group_rebalance_timeout_ms_max=1_800_000,
    consumer_times=GroupBounds(Bounds(45_000, 45_000, 60_000), Bounds(5_000, 5_000, 15_000)),
    group_consumer_migration_policy="bidirectional",
    group_members_max=2_000,
    group_member_bytes_max=128 * 1024,
    groups_max=100,
    group_state_bytes_max=64 * 1024 * 1024,
    offset_metadata_bytes_max=4_096,
    offsets_per_commit_max=10_000,
    task_changes_per_report_max=1_000,
    offsets_retention_ms=3_600_000,
    offsets_expiry_check_ms=60_000,
)

RANGE = (GroupProtocol("range", b"topics"),)
Record = tuple[bytes, bytes | None]
T = TypeVar("T")


class Ended(NamedTuple):
    """A marker in the log, after this many records."""

    after: int
    producer_id: int
    commit: bool


class Numbered(Call[Any]):
    """A call that is known by a text."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __str__(self) -> str:
        return self._token

    def deliver(self, answer: Any) -> None:
        raise AssertionError(f"{self}: a stage reads answers from the effects")


class Stage:
    """Each call of the coordinator has a token, `1`, `2`, …; its answer, once there is one, is in `answers`.

    With `writing` off, appends wait in `wanted` until `written` or `failed`.
    """

    def __init__(
        self,
        limits: GroupLimits = LIMITS,
        *,
        log: Iterable[Record] = (),
        headers: Iterable[Headers] = (),
        producers: Mapping[int, int] | None = None,
        markers: Iterable[Ended] = (),
        at_s: float = 100.0,
    ) -> None:
        self.core = Coordinator(limits)
        self.at_s = at_s
        self.log = list(log)
        self.headers = list(headers)
        """Of each record of the log; records that a test adds by itself have none."""
        self.headers += [()] * (len(self.log) - len(self.headers))
        self.producers = dict(producers or {})
        """Of each record that is part of a transaction, by its place in the log."""
        self.markers = list(markers)
        self.answers: dict[str, Any] = {}
        self.events: list[GroupEvent] = []
        self.failures: list[Failed] = []
        self.expects_failures = False
        self.wanted: list[Append] = []
        self.writing = True
        self.effects: list[Effect] = []
        self.asked = 0
        self.by: Principal | None = None
        """Who asks."""
        self.host = HOST
        self._load()
        self.play(self.core.loaded(self.now))

    @property
    def now(self) -> Instant:
        return Instant(self.at_s, BEGIN_MS + round(self.at_s * 1000))

    def _load(self) -> None:
        markers = iter([*self.markers, Ended(len(self.log) + 1, 0, False)])
        ended = next(markers)
        for place in range(len(self.log) + 1):
            while ended.after == place:
                self.play(self.core.transaction_ended(ended.producer_id, self.now, commit=ended.commit))
                ended = next(markers)
            if place < len(self.log):
                key, value = self.log[place]
                of = self.producers.get(place)
                self.core.load(key, value, self.now.wall_ms, self.headers[place], of)

    # --- effects -----------------------------------------------------------------------------

    def play(self, effects: list[Effect]) -> None:
        for effect in effects:
            self.effects.append(effect)
            match effect:
                case Answer(call, value):
                    token = str(call)
                    assert token not in self.answers, f"{token} is answered twice"
                    self.answers[token] = value
                case Append():
                    self.wanted.append(effect)
                    if self.writing:
                        self.written()
                case Publish(event):
                    self.events.append(event)
                case Failed(_, _, error):
                    self.failures.append(effect)
                    if not self.expects_failures:
                        raise error

    def written(self) -> None:
        """The oldest append that waits is in the log."""
        append = self.wanted.pop(0)
        if append.transaction is not None:
            producer_id = append.transaction.producer.producer_id
            self.producers |= {len(self.log) + n: producer_id for n in range(len(append.records))}
        self.log.extend(append.records)
        self.headers.extend(headers for _, _, headers in append.each())
        self.play(self.core.appended(append.write_id, None, self.now))

    def failed(self, error: StrandlineError | None = None) -> None:
        """The oldest append that waits did not get into the log."""
        append = self.wanted.pop(0)
        error = error or CoordinatorNotAvailable("too few replicas")
        self.play(self.core.appended(append.write_id, error, self.now))

    def ended(self, producer_id: int, *, commit: bool) -> None:
        """The marker of the producer's transaction is in the log."""
        self.markers.append(Ended(len(self.log), producer_id, commit))
        self.play(self.core.transaction_ended(producer_id, self.now, commit=commit))

    def later(self, seconds: float) -> None:
        """Time passes, and every deadline on the way is kept."""
        end = self.at_s + seconds
        while (deadline := self.core.next_deadline()) is not None and deadline <= end:
            self.at_s = max(self.at_s, deadline)
            self.play(self.core.tick(self.now))
        self.at_s = end

    def elsewhere(self, *, at_s: float | None = None, limits: GroupLimits = LIMITS) -> Stage:
        """The coordinator that takes over: it has read this one's log."""
        return Stage(
            limits,
            log=self.log,
            headers=self.headers,
            producers=self.producers,
            markers=self.markers,
            at_s=self.at_s if at_s is None else at_s,
        )

    def unload(self) -> None:
        self.play(self.core.unload(NotCoordinator("led elsewhere")))

    # --- requests ----------------------------------------------------------------------------

    def ask(self, request: Asks[Any]) -> str:
        self.asked += 1
        token = str(self.asked)
        self.play(self.core.handle(Numbered(token), request, self.now, self.by))
        return token

    def answer(self, token: str, kind: type[T]) -> T:
        """The answer, which must be there and of this kind."""
        assert token in self.answers, f"{token} waits"
        answer = self.answers[token]
        assert isinstance(answer, kind), f"{token}: {answer!r} instead of {kind.__name__}"
        return answer

    def waits(self, token: str) -> bool:
        return token not in self.answers

    def join(self, member: str, new: str = "", **changes: Any) -> str:
        request = replace(joining(member), **changes)
        return self.ask(Join(request, new or f"new-{self.asked + 1}", self.host))

    def enter(self, member: str, **changes: Any) -> str:
        """A dynamic member asks for its id and joins with it."""
        given = self.join("", member, **changes)
        assert self.answer(given, MemberIdGiven) == MemberIdGiven(member)
        return self.join(member, **changes)

    def sync(
        self, member: str, generation: int, assignments: Mapping[str, bytes] | None = None, **more: Any
    ) -> str:
        request = SyncGroup(GROUP, member, generation, "consumer", "range", assignments or {}, **more)
        return self.ask(request)

    def heartbeat(self, member: str, generation: int, wait_ms: int = 0, instance: str | None = None) -> str:
        request = Heartbeat(GROUP, member, generation, instance, wait_ms)
        return self.ask(request)

    def leave(self, *members: LeavingMember | str) -> tuple[LeftMember, ...]:
        request = LeaveGroup(GROUP, tuple(LeavingMember(m) if isinstance(m, str) else m for m in members))
        token = self.ask(request)
        left: tuple[LeftMember, ...] = self.answer(token, tuple)
        return left

    def commit(
        self,
        offsets: Mapping[TopicPartition, int | CommittedOffset],
        member: str = "",
        generation: int = -1,
        *,
        instance: str | None = None,
        group: str = GROUP,
        producer_id: int | None = None,
    ) -> str:
        """`producer_id`: of the transaction in which the offsets are committed."""
        values = {k: CommittedOffset(v) if isinstance(v, int) else v for k, v in offsets.items()}
        request = OffsetCommit(group, member, generation, values, instance)
        of = None if producer_id is None else Transactional(ProducerIdentity(producer_id, 0), NO_MARKER)
        return self.ask(Commit(request, transaction=of))

    def committed(self, group: str = GROUP) -> dict[TopicPartition, int]:
        token = self.ask(OffsetFetch(group))
        return {name: committed.offset for name, committed in self.answer(token, dict).items()}

    def stable_offsets(
        self, names: tuple[TopicPartition, ...] | None = None, *, group: str = GROUP
    ) -> dict[TopicPartition, int | type[StrandlineError] | None]:
        """As a reader sees them that asks for stable ones."""
        fetched = self.answer(self.ask(OffsetFetch(group, names, require_stable=True)), FetchedOffsets)
        found = {name: None if each is None else each.offset for name, each in fetched.items()}
        return {**found, **dict.fromkeys(fetched.unstable, UnstableOffsetCommit)}

    def offsets(self, group: str = GROUP) -> FetchedOffsets:
        """All that is known of the committed offsets."""
        return self.answer(self.ask(OffsetFetch(group)), FetchedOffsets)

    def found(self, group: str = GROUP) -> DescribedGroup | None:
        """The group, if it is known."""
        answer = self.answers[self.ask(DescribeGroup(group))]
        return answer if isinstance(answer, DescribedGroup) else None

    def report(self, member: str, generation: int, *changes: OwnershipChange) -> str:
        request = ReportOwnership(GROUP, member, generation, changes)
        return self.ask(Report(request))

    def describe(self, group: str = GROUP) -> DescribedGroup:
        return self.answer(self.ask(DescribeGroup(group)), DescribedGroup)

    def describe_error(self, group: str = GROUP) -> StrandlineError:
        return self.answer(self.ask(DescribeGroup(group)), StrandlineError)

    def delete(self, group: str = GROUP) -> str:
        return self.ask(DeleteGroup(group))

    def delete_offsets(self, *names: TopicPartition, missing: Collection[TopicPartition] = ()) -> str:
        return self.ask(DeleteOffsets(GROUP, names, missing))

    @property
    def state(self) -> str:
        return self.describe().state

    @property
    def generation(self) -> int:
        return self.describe().generation

    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]

    # --- scenes ------------------------------------------------------------------------------

    def stable(self, *members: str, **changes: Any) -> int:
        """These are all the members of a stable group, each with its own name as assignment: which
        generation."""
        tokens: dict[str, str] = {}
        for member in members:
            entered = self.enter(member, **changes)
            tokens = {known: self.join(known, **changes) for known in tokens} | {member: entered}
            self.sync_all(tokens)
        assert self.state == "Stable"
        return self.generation

    def sync_all(self, tokens: Mapping[str, str]) -> None:
        """All members have learned of the generation; the leader assigns its own name to each."""
        joins = {member: self.answer(token, Joined) for member, token in tokens.items()}
        leader = next(iter(joins.values())).leader
        for member, joined in joins.items():
            work = {name: name.encode() for name in joins} if member == leader else {}
            self.sync(member, joined.generation, work)


def joining(member: str) -> JoinGroup:
    return JoinGroup(GROUP, member, SESSION_MS, REBALANCE_MS, "consumer", RANGE, client_id="client")


def partition(number: int, topic: str = "words") -> TopicPartition:
    return TopicPartition(topic, number)
