"""What one process of a member did and saw: its heartbeats, and which partitions it had when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from strandline.errors import Outcome, StrandlineError
from strandline.ids import PartitionId, PartitionKey, TopicId, TopicPartition
from strandline.ports import Method, Request, Response, Stream, Transport
from strandline.vocabulary.groups import JOINS, ConsumerBeat, ConsumerHeartbeat, OffsetCommit

REVOKED: Final = "revoked"
LOST: Final = "lost"


@dataclass(slots=True)
class Beat:
    """A heartbeat as its client sent it, and the answer that it got. Times are virtual seconds."""

    asked_s: float
    member: str
    epoch: int
    owned: tuple[PartitionKey, ...] | None
    """What the member says that it has; None: it says nothing."""
    answered_s: float | None = None
    """None: it got no answer, and may have been handled at any later time."""
    error: int = 0
    answer_epoch: int = 0
    assignment: tuple[PartitionKey, ...] | None = None

    @property
    def taken(self) -> bool:
        """The coordinator has answered it, and did not refuse."""
        return self.answered_s is not None and not self.error


@dataclass(slots=True)
class Held:
    """A partition from the moment at which the application has it until it does no longer."""

    key: PartitionKey
    topic: str
    member: str
    from_s: float
    to_s: float | None = None
    """None until then."""
    ended: str = ""
    """REVOKED or LOST; empty: the process ended with it."""


class CommitTry(NamedTuple):
    """A commit as it was sent. `note`: its metadata."""

    member: str
    epoch: int
    note: str


@dataclass(slots=True)
class MemberRecord:
    """One process of a member."""

    name: str
    now: Callable[[], float]
    """Virtual seconds."""
    asking: Callable[[bool], None] = lambda _: None
    """Called as a heartbeat leaves, with True if others depend on what it says."""
    commits: list[CommitTry] = field(default_factory=list)
    beats: list[Beat] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    _ids: dict[str, TopicId] = field(default_factory=dict)
    """Of the topics in the last assignments."""

    def knows(self, topics: Mapping[str, TopicId]) -> None:
        """These topics were given, by name."""
        self._ids |= topics

    def begins(self, topic: str, key: PartitionKey, member: str) -> None:
        self.held.append(Held(key, topic, member, self.now()))

    def takes(self, names: Iterable[TopicPartition], member: str) -> None:
        """The application of one of strandline's own members gets these."""
        for name in sorted(names):
            self.begins(name.topic, PartitionKey(self._ids[name.topic], PartitionId(name.partition)), member)

    def gives_up(self, names: Iterable[TopicPartition], how: str) -> None:
        gone = {(name.topic, name.partition) for name in names}
        for each in self.held:
            if each.to_s is None and (each.topic, each.key.partition) in gone:
                each.to_s, each.ended = self.now(), how

    def has(self) -> list[Held]:
        return [each for each in self.held if each.to_s is None]

    def ends(self) -> None:
        """The process is over."""
        for each in self.has():
            each.to_s = self.now()

    # --- heartbeats --------------------------------------------------------------------------

    def asks(self, member: str, epoch: int, owned: Iterable[PartitionKey] | None) -> Beat:
        beat = Beat(self.now(), member, epoch, None if owned is None else tuple(owned))
        self.beats.append(beat)
        self.asking(owned is not None or epoch <= JOINS)
        return beat

    def is_answered(self, beat: Beat, answer: ConsumerBeat) -> None:
        beat.answered_s, beat.answer_epoch, beat.assignment = self.now(), answer.epoch, answer.assignment
        self.knows({name: topic_id for topic_id, name in answer.names.items()})

    def is_refused(self, beat: Beat, error: int) -> None:
        beat.answered_s, beat.error = self.now(), error


class TappedTransport:
    """A client's transport that notes its heartbeats."""

    def __init__(self, inner: Transport, record: MemberRecord) -> None:
        self._inner = inner
        self._record = record

    async def call(
        self, address: str, method: Method[Request, Response], request: Request, *, timeout_s: float
    ) -> Response:
        if isinstance(request, OffsetCommit):
            notes = {each.metadata for each in request.offsets.values()}
            tries = [CommitTry(request.member, request.generation, note) for note in sorted(notes)]
            self._record.commits += tries
        if not isinstance(request, ConsumerHeartbeat):
            return await self._inner.call(address, method, request, timeout_s=timeout_s)
        beat = self._record.asks(request.member, request.epoch, request.owned)
        try:
            answer = await self._inner.call(address, method, request, timeout_s=timeout_s)
        except StrandlineError as error:
            if error.outcome is Outcome.FATAL:
                self._record.is_refused(beat, int(error.code))
            raise
        assert isinstance(answer, ConsumerBeat), answer
        self._record.is_answered(beat, answer)
        return answer

    async def open(
        self, address: str, method: Method[Request, Response], *, timeout_s: float
    ) -> Stream[Request, Response]:
        return await self._inner.open(address, method, timeout_s=timeout_s)

    async def close(self) -> None:
        await self._inner.close()
