"""Checks of an application's logs after the run.

Each commit of a task is one batch of its changelog: so the changelogs alone show the counts after each
commit, which are compared with the input that the same batch claims to have read. A record that was counted
twice, or never, shows in the first batch that has it; a position that goes back shows too. The events of the
group have the owners over time. The checks are pure: each returns sentences; none means that all is well.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from strandline import FetchedBatch, TopicPartition
from strandline.records import RecordHeaders
from strandline.streams import INTEGER
from strandline.streams.core.changelog import LOGS_KEY, POSITION_KEY, store_prefix
from strandline.streams.core.origins import ORIGIN_HEADER
from strandline.streams.core.positions import Positions
from strandline_lab.simulation.workloads.counting.topology import COUNT_BYTES

LETS_GO: Final = frozenset({"revoked", "lost"})
STOPS: Final = frozenset({"task_suspended", "task_closed", "task_restoring", "task_learning", "task_standby"})


@dataclass(frozen=True, slots=True)
class Commit:
    """One batch of a changelog. `read`: the offset of the next record to read, by input partition."""

    offset: int
    next_offset: int
    counts: Mapping[bytes, int | None]
    positions: int
    """Position records in the batch: one, if all is well."""
    read: Mapping[TopicPartition, int]


@dataclass(slots=True)
class History:
    """The content of an application's topics, by partition: what is committed, if it has transactions."""

    exactly_once: bool = False
    """Commits are transactions: there are markers between them, and each output is there once (S13)."""
    lines: dict[int, list[tuple[bytes, bytes]]] = field(default_factory=lambda: defaultdict(list))
    """User and component, at their offsets."""
    repartitioned: dict[int, list[tuple[int, bytes]]] = field(default_factory=lambda: defaultdict(list))
    """The offset and the origin of each record."""
    users: dict[int, list[Commit]] = field(default_factory=lambda: defaultdict(list))
    components: dict[int, list[Commit]] = field(default_factory=lambda: defaultdict(list))
    counts: list[tuple[bytes, int]] = field(default_factory=list)
    """The outputs: a component and its count."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """The events of the group."""


def commit(batch: FetchedBatch, store: str) -> Commit:
    """A batch of the changelog of a task with this store."""
    prefix = store_prefix(store)
    counts: dict[bytes, int | None] = {}
    rows = [(record.key, record.value) for record in batch.records() if record.key is not None]
    for key, value in rows:
        if key not in (LOGS_KEY, POSITION_KEY):
            counts[key.removeprefix(prefix)] = None if value is None else INTEGER.decode(value[:COUNT_BYTES])
    positions = sum(key == POSITION_KEY for key, _ in rows)
    inputs = Positions.read(dict(rows).get).inputs
    read = {name: at.offset for name, at in inputs.items()}
    return Commit(batch.base_offset, batch.next_offset, counts, positions, read)


def origin(headers: RecordHeaders) -> bytes:
    """Raises KeyError if a repartitioned record does not say where it is from."""
    found = dict(headers)[ORIGIN_HEADER]
    assert found is not None
    return found


# --- the checks ---------------------------------------------------------------------------------


def faults(history: History, lines: str, repartition: str) -> list[str]:
    """All that is wrong with what was counted. The arguments are the names of the input topics."""
    found: list[str] = []
    for partition, written in sorted(history.lines.items()):
        name, commits = TopicPartition(lines, partition), history.users[partition]
        found += order_faults(f"users-{partition}", name, commits, gaps=history.exactly_once)
        found += sum_faults(f"users-{partition}", name, commits, lambda read: read)
        wanted = Counter(user for user, _ in written)
        found += differences(f"users-{partition}", wanted, state(commits))
    total: Counter[bytes] = Counter()
    for partition, commits in sorted(history.components.items()):
        name = TopicPartition(repartition, partition)
        repartitioned = history.repartitioned[partition]
        found += order_faults(f"components-{partition}", name, commits, gaps=history.exactly_once)
        found += sum_faults(f"components-{partition}", name, commits, once(repartitioned))
        if history.exactly_once:
            found += repeats(str(name), Counter(origin for _, origin in repartitioned))
        total += state(commits)
    wanted = Counter(component for written in history.lines.values() for _, component in written)
    found += differences("components", wanted, total)
    if history.exactly_once:
        found += repeats("output", Counter(history.counts))
    return found + output_faults(history.counts, wanted)


def order_faults(
    name: str, source: TopicPartition, commits: Sequence[Commit], *, gaps: bool = False
) -> list[str]:
    """Each commit is whole, follows on the one before, and never says less than that (S3, S8). `gaps`: there
    are markers and aborted commits between them."""
    found: list[str] = []
    read, end = 0, 0
    for each in commits:
        if each.offset < end or (each.offset > end and not gaps):
            found.append(f"{name}: a batch at {each.offset} follows on one that ended at {end}")
        if each.positions != 1:
            found.append(f"{name}: the batch at {each.offset} has {each.positions} position records")
        now = each.read.get(source, 0)
        if now < read:
            found.append(f"{name}: the batch at {each.offset} goes back from {read} to {now} of {source}")
        read, end = now, each.next_offset
    return found


def sum_faults(
    name: str, source: TopicPartition, commits: Iterable[Commit], records: Callable[[int], int]
) -> list[str]:
    """After each commit as many are counted as were read: `records(offset)` of those below an offset."""
    found: list[str] = []
    counted: dict[bytes, int] = {}
    total = 0
    for each in commits:
        for key, value in each.counts.items():
            total += (value or 0) - counted.get(key, 0)
            counted[key] = value or 0
        wanted = records(each.read.get(source, 0))
        if total != wanted:
            found.append(f"{name}: with the batch at {each.offset} {total} are counted of {wanted} read")
    return found


def once(records: Sequence[tuple[int, bytes]]) -> Callable[[int], int]:
    """How many different records there are below an offset, if some stand there twice (S9)."""
    seen: set[bytes] = set()
    offsets, below = list[int](), [0]
    for offset, origin in records:
        seen.add(origin)
        offsets.append(offset)
        below.append(len(seen))
    return lambda end: below[bisect_left(offsets, end)]


def repeats(name: str, found: Mapping[Any, int]) -> list[str]:
    """No output is there twice (S13)."""
    return [f"{name}: {key!r} is there {times} times" for key, times in sorted(found.items()) if times > 1]


def state(commits: Iterable[Commit]) -> Counter[bytes]:
    """The state of a task that replays these."""
    counted: Counter[bytes] = Counter()
    for each in commits:
        for key, value in each.counts.items():
            counted[key] = value or 0
    return counted


def differences(name: str, wanted: Mapping[bytes, int], found: Mapping[bytes, int]) -> list[str]:
    return [
        f"{name}: {key!r} stands there {wanted.get(key, 0)} times and was counted {found.get(key, 0)}"
        for key in sorted(wanted.keys() | found.keys())
        if wanted.get(key, 0) != found.get(key, 0)
    ]


def output_faults(counts: Iterable[tuple[bytes, int]], wanted: Mapping[bytes, int]) -> list[str]:
    """Every count that there was came out at least once, and nothing else did."""
    outputs: defaultdict[bytes, set[int]] = defaultdict(set)
    for key, value in counts:
        outputs[key].add(value)
    found = []
    for key in sorted(wanted.keys() | outputs.keys()):
        missing = set(range(1, wanted.get(key, 0) + 1)) ^ outputs[key]
        if missing:
            found.append(f"output: of {key!r}, {wanted.get(key, 0)} times, {sorted(missing)[:5]} …")
    return found


def owner_faults(events: Iterable[Mapping[str, Any]]) -> list[str]:
    """No partition has two owners at a time, and no task runs at two members.

    In the order in which it happened, not in which it was reported: a member reports a release when it has
    time. Within one millisecond, a release comes first.
    """
    found: list[str] = []
    owners: dict[str, str] = {}
    runners: dict[str, str] = {}

    def take(held: dict[str, str], what: str, member: str, event: Mapping[str, Any]) -> None:
        if held.get(what, member) != member:
            found.append(f"{what} is {held[what]}'s when {event}")
        held[what] = member

    def let_go(held: dict[str, str], what: str, member: str) -> None:
        if held.get(what) == member:
            del held[what]

    for event in sorted(events, key=lambda event: (event["at_ms"], event["event"] in TAKES)):
        kind, member = event["event"], event.get("member", "")
        partitions = [
            f"{topic}/{number}"
            for topic, numbers in event.get("partitions", {}).items()
            for number in numbers
        ]
        if kind == "assigned":
            for partition in partitions:
                take(owners, partition, member, event)
        elif kind in LETS_GO:
            for partition in partitions:
                let_go(owners, partition, member)
        elif kind == "task_running":
            take(runners, event["task"], member, event)
        elif kind in STOPS:
            let_go(runners, event["task"], member)
        elif kind == "member_left":
            for held in (owners, runners):
                for what in [what for what, holder in held.items() if holder == member]:
                    let_go(held, what, member)
    return found


TAKES: Final = frozenset({"assigned", "task_running"})
