"""What is wrong with a cluster now, in sentences, each with the moment at which it began."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from strandline.client.admin.topics import Condition, conditions
from strandline.console.core.groups.lag import Sample
from strandline.console.core.overview.lags import rising_since
from strandline.console.core.permalink import group_link, timeline_link
from strandline.console.core.seen import Seen
from strandline.console.core.timeline.all_rows import Rows
from strandline.console.core.timeline.lanes.spans import Spans
from strandline.console.core.timeline.lanes.steps import Step
from strandline.console.core.timeline.places import NO_REF, Ref, event_id
from strandline.console.core.timeline.rows import BrokerRow, PartitionRow
from strandline.console.core.words import counted, duration, listed, number, shown
from strandline.ids import TopicPartition
from strandline.vocabulary.admin import OngoingReassignment
from strandline.vocabulary.metadata import PartitionMetadata, TopicMetadata

BACKLOG_MS: Final = 10_000
"""A state change that has waited this long for its broker is a backlog."""
NAMED_MAX: Final = 3
"""Partitions that a sentence names; the others it counts."""
LISTED_MAX: Final = 50
"""Partitions that are listed beneath it."""

Began = tuple[int, Ref]
"""A moment, and the event that says so."""
Key = tuple[str, ...]
"""What a trouble is about, for the moment at which it was seen first."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One partition, broker or group that has a trouble. `since_ms` None: before anything that is known."""

    key: Key
    name: str
    since_ms: int | None
    link: str


@dataclass(frozen=True, slots=True)
class Trouble:
    """`grave`: records cannot be written or read, or might be lost. `subjects`: the one that began first is
    first; at most LISTED_MAX of them."""

    kind: str
    grave: bool
    sentence: str
    subjects: tuple[Subject, ...] = ()
    more: int = 0
    """Subjects that are not listed."""

    @property
    def since_ms(self) -> int | None:
        return self.subjects[0].since_ms if self.subjects else None

    @property
    def link(self) -> str:
        """The moment at which it began, on the timeline."""
        return self.subjects[0].link if self.subjects else timeline_link()


@dataclass(slots=True)
class Sights:
    """When each trouble was seen first, for those of which no event says when they began."""

    _first: dict[Key, int] = field(default_factory=dict)

    def note(self, keys: Iterable[Key], now_ms: int) -> None:
        """These are all that there are now."""
        self._first = {key: self._first.get(key, now_ms) for key in keys}

    def of(self, key: Key) -> int | None:
        """None for one that was not noted."""
        return self._first.get(key)


def troubles(
    seen: Seen, rows: Rows, lags: Mapping[str, Sequence[Sample]], sights: Sights, now_ms: int
) -> list[Trouble]:
    """The worst first. `lags` are the samples of groups."""
    alive = {broker.id for broker in seen.brokers}
    found = [
        *_unreachable(seen),
        *_away(seen, alive, rows, sights),
        *_partitions(seen, alive, rows, sights),
        *_moves(seen, alive, rows, now_ms),
        *_queues(seen, rows, now_ms),
        *_lags(lags),
    ]
    return sorted(found, key=lambda each: not each.grave)


def all_keys(seen: Seen) -> list[Key]:
    """The troubles that no event may date: those of brokers and partitions."""
    alive = {broker.id for broker in seen.brokers}
    return [
        *map(_key_of_broker, _replicas_away(seen, alive)),
        *(_key_of_partition(*each) for each in _lacking(seen, alive)),
    ]


# --- those who cannot be asked ------------------------------------------------------------------


def _unreachable(seen: Seen) -> Iterator[Trouble]:
    if seen.problem:
        yield Trouble("brokers", True, f"The cluster cannot be read: {seen.problem}.")
    if seen.controller_problem:
        said = "No controller answers: topics cannot be created or changed, and no replica moves"
        yield Trouble("controller", False, f"{said}. {seen.controller_problem}")


def _away(seen: Seen, alive: set[int], rows: Rows, sights: Sights) -> Iterator[Trouble]:
    replicas = _replicas_away(seen, alive)
    for broker in sorted(replicas):
        key = _key_of_broker(broker)
        since, ref = _away_since(rows.brokers.get(broker)) or (sights.of(key), NO_REF)
        link = timeline_link(broker=broker, at_ms=since, event=event_id(ref))
        has = f" It has {counted(replicas[broker], 'replica')}." if replicas[broker] else ""
        sentence = f"Broker {broker} is away.{has}"
        yield Trouble("away", False, sentence, (Subject(key, f"broker {broker}", since, link),))


def _replicas_away(seen: Seen, alive: set[int]) -> dict[int, int]:
    """The brokers that have replicas, or a queue, and are not alive, with the number of their replicas."""
    replicas: dict[int, int] = {each.endpoint.id: 0 for each in seen.described if not each.alive}
    for topic in seen.topics:
        for partition in topic.partitions:
            for broker in partition.replicas:
                if broker not in alive:
                    replicas[broker] = replicas.get(broker, 0) + 1
    return replicas


def _key_of_broker(broker: int) -> Key:
    return "away", str(broker)


# --- partitions ---------------------------------------------------------------------------------

_KINDS: Final = (
    (Condition.LEADERLESS, True, "no leader", ("can be neither read nor written",) * 2),
    (
        Condition.BELOW_MIN_ISR,
        True,
        "fewer replicas in sync than min.insync.replicas",
        ("takes no records with acks=all", "take no records with acks=all"),
    ),
    (Condition.UNDER_REPLICATED, False, "fewer replicas in sync than assigned", None),
)
"""The worst first: each partition counts for the first that holds. The last is what follows from it, for one
partition and for several."""


def _partitions(seen: Seen, alive: set[int], rows: Rows, sights: Sights) -> Iterator[Trouble]:
    found: dict[Condition, list[Subject]] = {kind: [] for kind, *_ in _KINDS}
    missing: dict[Condition, set[int]] = {kind: set() for kind, *_ in _KINDS}
    for kind, topic, each in _lacking(seen, alive):
        found[kind].append(_subject(kind, topic, each, alive, rows, sights))
        missing[kind] |= set(each.replicas) - alive
    for kind, grave, lack, follows in _KINDS:
        if subjects := sorted(found[kind], key=lambda each: (each.since_ms or 0, each.name)):
            sentence = _sentence(subjects, lack, follows, missing[kind])
            listed_, more = tuple(subjects[:LISTED_MAX]), max(0, len(subjects) - LISTED_MAX)
            yield Trouble(kind.value, grave, sentence, listed_, more)


def _lacking(seen: Seen, alive: set[int]) -> Iterator[tuple[Condition, TopicMetadata, PartitionMetadata]]:
    """Each partition that lacks something, and the worst of what it lacks."""
    moves = {move.name: move for move in seen.moves}
    for topic in seen.topics:
        for each in topic.partitions:
            move = moves.get(TopicPartition(topic.name, each.partition))
            holds = conditions(_without_added(each, move), topic.config, alive, None)
            kind = next((kind for kind, *_ in _KINDS if kind in holds), None)
            if kind is not None:
                yield kind, topic, each


def _key_of_partition(kind: Condition, topic: TopicMetadata, of: PartitionMetadata) -> Key:
    return kind.value, topic.name, str(of.partition)


def _without_added(partition: PartitionMetadata, move: OngoingReassignment | None) -> PartitionMetadata:
    """Replicas that a reassignment adds are not missed while they are copied."""
    if move is None:
        return partition
    return replace(partition, replicas=tuple(each for each in partition.replicas if each in move.original))


def _sentence(
    subjects: Sequence[Subject], lack: str, follows: tuple[str, str] | None, missing: set[int]
) -> str:
    names = [each.name for each in subjects[:NAMED_MAX]]
    rest = len(subjects) - len(names)
    who = f"{', '.join(names)} and {rest:,} more" if rest else listed(names)
    one = len(subjects) == 1
    said = f"{who} {'has' if one else 'have'} {lack}"
    if missing:
        said += f"; {'broker' if len(missing) == 1 else 'brokers'} {listed(sorted(missing))} "
        said += "is away" if len(missing) == 1 else "are away"
    if follows is not None:
        said += f". It {follows[0]}" if one else f". They {follows[1]}"
    return f"{said}."


def _subject(
    kind: Condition,
    topic: TopicMetadata,
    of: PartitionMetadata,
    alive: set[int],
    rows: Rows,
    sights: Sights,
) -> Subject:
    name = f"{topic.name}-{of.partition}"
    key = _key_of_partition(kind, topic, of)
    row = rows.known_partition(topic.name, of.partition)
    began = None if row is None else _began(kind, row, of, alive, rows)
    since, ref = began or (sights.of(key), NO_REF)
    link = timeline_link(topic=topic.name, partition=of.partition, at_ms=since, event=event_id(ref))
    return Subject(key, shown(name), since, link)


def _began(
    kind: Condition, row: PartitionRow, of: PartitionMetadata, alive: set[int], rows: Rows
) -> Began | None:
    """When the trouble of a partition began, by its events."""
    if kind is Condition.LEADERLESS:
        return _first(row.leader.since(lambda leader: leader < 0))
    gone = [rows.brokers.get(broker) for broker in of.isr if broker not in alive]
    if gone:  # they are in the ISR still
        return max(filter(None, map(_away_since, gone)), default=None)
    if set(row.isr.last or ()) != set(of.isr):
        return None  # its events are not here yet
    most = len(of.isr) if kind is Condition.BELOW_MIN_ISR else len(of.replicas) - 1
    return _first(row.isr.since(lambda isr: len(isr) <= most))


def _away_since(row: BrokerRow | None) -> Began | None:
    return None if row is None else _first(row.alive.since(lambda is_alive: not is_alive))


def _first(step: Step[Any] | None) -> Began | None:
    return None if step is None else (step.at_ms, step.ref)


# --- moves, queues, groups ----------------------------------------------------------------------


def _moves(seen: Seen, alive: set[int], rows: Rows, now_ms: int) -> Iterator[Trouble]:
    for kind, says in (("overdue", _overdue), ("stuck", _stuck)):
        found: list[tuple[str, Subject]] = []
        for move in seen.moves:
            name = move.name
            if (why := says(move, alive, now_ms)) is None:
                continue
            row = rows.known_partition(*name)
            at_ms, ref = _oldest(None if row is None else row.reassignments)
            at_ms = move.deadline_at_ms if kind == "overdue" else at_ms
            link = timeline_link(topic=name.topic, partition=name.partition, at_ms=at_ms, event=event_id(ref))
            subject = Subject((kind, name.topic, str(name.partition)), shown(str(name)), at_ms, link)
            found.append((why, subject))
        if found:
            why, first = found[0]
            others = f" {counted(len(found) - 1, 'other move')} as well." if len(found) > 1 else ""
            subjects = tuple(each for _, each in found[:LISTED_MAX])
            sentence = f"{first.name} moves to brokers {why}.{others}"
            yield Trouble(kind, False, sentence, subjects, max(0, len(found) - LISTED_MAX))


def _overdue(move: OngoingReassignment, _: set[int], now_ms: int) -> str | None:
    if not move.deadline_at_ms or now_ms < move.deadline_at_ms:
        return None
    return f"{listed(move.replicas)}, and is overdue"


def _stuck(move: OngoingReassignment, alive: set[int], now_ms: int) -> str | None:
    away = [broker for broker in move.replicas if broker not in alive]
    if not away or move.reverting or _overdue(move, alive, now_ms):
        return None
    return f"{listed(move.replicas)}, but broker {listed(away)} is away: it cannot end"


def _oldest(spans: Spans | None) -> tuple[int | None, Ref]:
    """When the oldest of them began that has not ended, and what says so."""
    span = None if spans is None else spans.oldest_open()
    return (None, NO_REF) if span is None else (span.from_ms, span.ref)


def _queues(seen: Seen, rows: Rows, now_ms: int) -> Iterator[Trouble]:
    for each in seen.described:
        oldest = each.oldest_queued_at_ms
        if not oldest or now_ms - oldest < BACKLOG_MS:
            continue
        broker = each.endpoint.id
        wait = "waits" if each.queued_state_changes == 1 else "wait"
        sentence = f"{counted(each.queued_state_changes, 'state change')} {wait} for broker {broker}."
        row = rows.brokers.get(broker)
        _, ref = _oldest(None if row is None else row.requests)
        link = timeline_link(broker=broker, at_ms=oldest, event=event_id(ref))
        yield Trouble(
            "queue", False, sentence, (Subject(("queue", str(broker)), f"broker {broker}", oldest, link),)
        )


def _lags(lags: Mapping[str, Sequence[Sample]]) -> Iterator[Trouble]:
    grown: list[tuple[int, str, Subject]] = []
    for group, samples in sorted(lags.items()):
        since = rising_since(samples)
        if since is None or samples[-1].lag is None or since.lag is None:
            continue
        name = shown(group)
        took = duration(samples[-1].at_ms - since.at_ms)
        sentence = (
            f"Group {name} is {counted(samples[-1].lag, 'record')} behind, "
            f"{number(samples[-1].lag - since.lag)} more than {took} ago."
        )
        grown.append(
            (samples[-1].lag, sentence, Subject(("lag", group), name, since.at_ms, group_link(group)))
        )
    if grown:
        grown.sort(key=lambda each: -each[0])
        _, sentence, _ = grown[0]
        if len(grown) > 1:
            fall = "falls" if len(grown) == 2 else "fall"
            sentence += f" {counted(len(grown) - 1, 'other group')} {fall} further behind as well."
        subjects = tuple(subject for _, _, subject in grown[:LISTED_MAX])
        yield Trouble("lag", False, sentence, subjects, max(0, len(grown) - LISTED_MAX))
