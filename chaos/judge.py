"""What is wrong with a round: all checks of `strandline.auditing`, on all that the round left behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from strandline.auditing import (
    cluster,
    commits,
    handling,
    leader_epochs,
    member_ownership,
    reference,
    requests,
    staleness,
)
from strandline.auditing.checks import Finding, in_order
from strandline.auditing.history import Received
from strandline.auditing.reference import Logged, Span
from strandline.auditing.staleness import Staleness
from strandline.chaos import evidence, replica_logs
from strandline.chaos.evidence import Evidence
from strandline.chaos.replica_logs import Lane, Replica

Place = tuple[str, int]
"""Topic and partition."""


def judge(out: Path, logs: Mapping[int, Path]) -> list[Finding]:
    """All that is wrong, by check, topic and place. `logs`: of each broker the folder with its partitions,
    after all has settled and nobody writes any more.

    The log that histories are held against is the leader's on disk, up to the high watermark: no client is
    between. Of a partition that is in none of `logs` it is what the readers of the end were given.

    Raises BrokenEvidence, InvalidHistory, StorageFailed, CorruptMessage, OSError.
    """
    told = evidence.read(out)
    on_disk = replica_logs.find(logs)
    found: list[Finding] = []
    log: list[Logged] = []
    spans: dict[Place, Span] = {}
    topics = {event.topic for history in told.histories for event in history.events}
    in_sync = _in_sync(told)
    for lane, all_replicas in on_disk.items():
        isr = in_sync.get((lane.topic, lane.partition), ())
        replicas = _of_isr(all_replicas, isr)
        watermark = _watermark(told, lane, replicas)
        found += replica_logs.compare(lane, replicas, watermark)
        missing = logs.keys() & set(isr) - {replica.broker for replica in replicas}
        found += [replica_logs.missing(lane, broker, watermark) for broker in missing]
        if lane.topic in topics:
            # The leader's, unless it is damaged, which was found already.
            whole = max(replicas, key=lambda replica: min(replica.end, watermark))
            end = min(whole.end, watermark)
            spans[lane.topic, lane.partition] = Span(min(whole.start, end), end)
            log += replica_logs.records(lane, whole, end)
    read = list(_read_finally(told, spans))
    log += read
    spans |= _spans_of(read)
    for topic in topics - {topic for topic, _ in spans}:
        spans[topic, 0] = reference.NO_LOG
    found += reference.findings(told.histories, log, spans)
    found += cluster.findings(told.observations, told.changes)
    found += leader_epochs.findings(told.changes)
    found += member_ownership.findings(told.member_histories, told.group_events)
    found += commits.findings(told.committed, _received(told), _offsets(log), told.acknowledged)
    found += handling.findings(told.histories)
    found += requests.findings(told.changes, settled_ms=told.settled_ms, gone=_gone(told, logs))
    return in_order(set(found))


def longest_staleness(out: Path) -> list[Staleness]:
    """For each partition: how long an acknowledged record took at most until a reader by assignment had
    it."""
    told = evidence.read(out)
    return staleness.longest(told.acked_ms, told.readings)


# --- replicas ---------------------------------------------------------------------------------


def _read_finally(told: Evidence, known: Collection[Place]) -> Iterator[Logged]:
    """What readers that began in the end were given, of other partitions than these."""
    for history in told.final:
        for event in history.events:
            if isinstance(event, Received) and (event.topic, event.partition) not in known:
                yield Logged(event.topic, event.partition, event.offset, event.value)


def _spans_of(log: Iterable[Logged]) -> dict[Place, Span]:
    return {place: Span(offsets[0], offsets[-1] + 1) for place, offsets in _offsets(log).items()}


def _in_sync(told: Evidence) -> dict[Place, tuple[int, ...]]:
    """The ISR of each partition in the end, its leader first: as it was observed or, of partitions that
    nobody observes, recorded last."""
    found: dict[Place, tuple[int, tuple[int, ...]]] = {}
    observed = {each.place for each in told.observations}
    for change in told.changes:
        lane = (change.topic, int(change.key.partition))
        if change.isr is not None and lane not in observed and change.epoch >= found.get(lane, (-1,))[0]:
            leader, members = int(change.broker), [int(each) for each in change.isr]
            found[lane] = change.epoch, _first(leader, members)
    for each in told.observations:
        if each.epoch >= found.get(each.place, (-1,))[0]:
            found[each.place] = each.epoch, _first(each.leader, each.isr)
    return {lane: members for lane, (_, members) in found.items()}


def _first(leader: int, members: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(members, key=lambda each: (each != leader, each)))


def _of_isr(replicas: Iterable[Replica], isr: tuple[int, ...]) -> list[Replica]:
    """Those that are in sync, the leader first; all, the longest first, if nobody knows who is."""
    by_broker = {replica.broker: replica for replica in replicas}
    known = [by_broker[broker] for broker in isr if broker in by_broker]
    return known or sorted(by_broker.values(), key=lambda replica: -replica.end)


def _watermark(told: Evidence, lane: Lane, replicas: Iterable[Replica]) -> int:
    """The high watermark: the highest that was told or written down, what all that are in sync have, and
    what was acknowledged, for that lies below it."""
    place = (lane.topic, lane.partition)
    observed = [each.watermark or 0 for each in told.observations if each.place == place]
    acked = max(told.acked_ms.get(place, ()), default=-1) + 1
    known = max(replica.watermark for replica in replicas)
    return max([acked, known, min(replica.end for replica in replicas), *observed])


# --- the rest ---------------------------------------------------------------------------------


def _received(told: Evidence) -> dict[str, dict[Place, set[int]]]:
    """By group, what its members received."""
    groups = {each.name: each.group for each in told.member_histories}
    found: dict[str, dict[Place, set[int]]] = {group: defaultdict(set) for group in groups.values()}
    for history in told.histories:
        if history.name in groups:
            of_group = found[groups[history.name]]
            for event in history.events:
                if isinstance(event, Received):
                    of_group[event.topic, event.partition].add(event.offset)
    return found


def _offsets(log: Iterable[Logged]) -> dict[Place, list[int]]:
    found: defaultdict[Place, list[int]] = defaultdict(list)
    for record in log:
        found[record.topic, record.partition].append(record.offset)
    return found


def _gone(told: Evidence, logs: Mapping[int, Path]) -> set[int]:
    """Brokers that something was asked of, and that do not come back."""
    return {int(change.broker) for change in told.changes} - set(logs)
