"""Judges a round: applies all checks of `strandline.auditing` to what the round left behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from strandline.auditing import cluster, reference
from strandline.auditing.checks import Finding, in_order
from strandline.auditing.history import Received
from strandline.auditing.reference import Logged, Span
from strandline_lab.auditing import (
    commits,
    handling,
    leader_epochs,
    member_ownership,
    requests,
    staleness,
    succession,
    transactions,
)
from strandline_lab.auditing.staleness import Staleness
from strandline_lab.chaos import replica_logs
from strandline_lab.chaos.core.demands import REPLACED_MS_MAX
from strandline_lab.chaos.core.hangs import lone_hangs
from strandline_lab.chaos.evidence import Evidence
from strandline_lab.chaos.replica_logs import LogId, Replica

Place = tuple[str, int]
"""Topic and partition."""


def judge(evidence: Evidence, logs: Mapping[int, Path]) -> list[Finding]:
    """All findings, by check, topic and place. `logs`: each broker's folder with its partitions, after the
    cluster has settled and all clients have ended.

    Histories are compared with the leader's log on disk, up to the high watermark, so no client is involved.
    Records of transactions count once these are committed. For a partition that is in none of `logs`,
    histories are compared with what the final readers received.

    Raises StorageFailed, CorruptMessage, OSError.
    """
    on_disk = replica_logs.find(logs)
    found: list[Finding] = []
    log: list[Logged] = []
    spans: dict[Place, Span] = {}
    topics = {event.topic for history in evidence.histories for event in history.events}
    in_sync = _in_sync(evidence)
    for log_id, all_replicas in on_disk.items():
        isr = in_sync.get((log_id.topic, log_id.partition), ())
        replicas = _of_isr(all_replicas, isr)
        watermark = _watermark(evidence, log_id, replicas)
        found += replica_logs.compare(log_id, replicas, watermark)
        missing = logs.keys() & set(isr) - {replica.broker for replica in replicas}
        found += [replica_logs.missing(log_id, broker, watermark) for broker in missing]
        # The leader's log, unless it is damaged, which is a finding already.
        whole = max(replicas, key=lambda replica: min(replica.end, watermark))
        end = min(whole.end, watermark)
        place = (log_id.topic, log_id.partition)
        decided = transactions.Model({place: [*replica_logs.batches(whole, end)]})
        if evidence.settled_ms is not None:
            found += transactions.hanging(decided.open)
        if log_id.topic in topics:
            spans[place] = Span(min(whole.start, end), end)
            log += [Logged(*place, *read) for read in decided.committed[place]]
    read = list(_read_finally(evidence, spans))
    log += read
    spans |= _spans_of(read)
    for topic in topics - {topic for topic, _ in spans}:
        spans[topic, 0] = reference.NO_LOG
    found += reference.findings(evidence.histories, log, spans)
    found += cluster.findings(evidence.observations, evidence.changes)
    found += leader_epochs.findings(evidence.changes)
    hangs = lone_hangs(evidence.moments, within_ms=REPLACED_MS_MAX)
    found += succession.findings(evidence.changes, hangs, within_ms=REPLACED_MS_MAX)
    found += member_ownership.findings(evidence.member_histories, evidence.group_events)
    found += commits.findings(
        evidence.committed, _received(evidence), _offsets(log), evidence.acknowledged, evidence.kafka_tenures
    )
    found += handling.findings(evidence.histories)
    found += _transactions(evidence, log)
    found += requests.findings(evidence.changes, settled_ms=evidence.settled_ms, gone=_gone(evidence, logs))
    return in_order(set(found))


def longest_staleness(evidence: Evidence) -> list[Staleness]:
    """For each partition, the longest time from the acknowledgement of a record until a reader by assignment
    received it."""
    return staleness.longest(evidence.acked_ms, evidence.readings)


# --- replicas ---------------------------------------------------------------------------------


def _read_finally(evidence: Evidence, known: Collection[Place]) -> Iterator[Logged]:
    """The records that the final readers received, of all partitions but these."""
    for history in evidence.final:
        for event in history.events:
            if isinstance(event, Received) and (event.topic, event.partition) not in known:
                yield Logged(event.topic, event.partition, event.offset, event.value)


def _spans_of(log: Iterable[Logged]) -> dict[Place, Span]:
    return {place: Span(offsets[0], offsets[-1] + 1) for place, offsets in _offsets(log).items()}


def _in_sync(evidence: Evidence) -> dict[Place, tuple[int, ...]]:
    """The final ISR of each partition, its leader first: as it was observed, or as it was last recorded if no
    observer saw the partition."""
    found: dict[Place, tuple[int, tuple[int, ...]]] = {}
    observed = {each.place for each in evidence.observations}
    for change in evidence.changes:
        place = (change.topic, int(change.key.partition))
        if change.isr is not None and place not in observed and change.epoch >= found.get(place, (-1,))[0]:
            leader, members = int(change.broker), [int(each) for each in change.isr]
            found[place] = change.epoch, _first(leader, members)
    for each in evidence.observations:
        if each.epoch >= found.get(each.place, (-1,))[0]:
            found[each.place] = each.epoch, _first(each.leader, each.isr)
    return {place: members for place, (_, members) in found.items()}


def _first(leader: int, members: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(members, key=lambda each: (each != leader, each)))


def _of_isr(replicas: Iterable[Replica], isr: tuple[int, ...]) -> list[Replica]:
    """The replicas in the ISR, the leader first. If the ISR is unknown, all of them, the longest first."""
    by_broker = {replica.broker: replica for replica in replicas}
    known = [by_broker[broker] for broker in isr if broker in by_broker]
    return known or sorted(by_broker.values(), key=lambda replica: -replica.end)


def _watermark(evidence: Evidence, log_id: LogId, replicas: Iterable[Replica]) -> int:
    """The high watermark: the highest of those observed, those written down, the end that all in-sync
    replicas have, and the end of what was acknowledged."""
    place = (log_id.topic, log_id.partition)
    observed = [each.watermark or 0 for each in evidence.observations if each.place == place]
    acked = max(evidence.acked_ms.get(place, ()), default=-1) + 1
    known = max(replica.watermark for replica in replicas)
    return max([acked, known, min(replica.end for replica in replicas), *observed])


# --- transactions -----------------------------------------------------------------------------


def _transactions(evidence: Evidence, log: Iterable[Logged]) -> Iterator[Finding]:
    """`log`: what is committed."""
    committed = {(record.topic, record.value) for record in log}
    ends = {(each.group, (each.topic, each.partition)): each.offset for each in evidence.committed}
    yield from transactions.torn(evidence.sendings, committed)
    yield from transactions.processed(evidence.sendings, committed, _offsets(log), ends)


# --- the rest ---------------------------------------------------------------------------------


def _received(evidence: Evidence) -> dict[str, dict[Place, set[int]]]:
    """The offsets that each group's members received."""
    groups = {each.name: each.group for each in evidence.member_histories}
    found: dict[str, dict[Place, set[int]]] = {group: defaultdict(set) for group in groups.values()}
    for history in evidence.histories:
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


def _gone(evidence: Evidence, logs: Mapping[int, Path]) -> set[int]:
    """Brokers that replicas were asked of, and that do not run again."""
    return {int(change.broker) for change in evidence.changes} - set(logs)
