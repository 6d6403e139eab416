"""Judges topics whose producers are all known and whose log is complete. Pure.

`reference.py` judges topics that unknown producers may write to. If every producer has a history, and no
record was deleted, more must hold:

* Each value in the log was sent, and to that partition if its producer chose one.
* Each offset between the start and the end of the log has a record.
* The records of one producer stand in a partition in the order in which they were sent, also those that
  were never acknowledged. A value that was sent twice has no place in this order.

A value that was sent twice is no fault here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from strandline.auditing import checks, reference
from strandline.auditing.checks import Finding, in_order
from strandline.auditing.history import History, Sent
from strandline.auditing.reference import Logged, Spans


class _Send(NamedTuple):
    """Record number `record` of a history."""

    history: int
    record: int
    partition: int | None


_Sends = Mapping[tuple[str, bytes | None], Sequence[_Send]]
"""Sends by topic and value."""


def findings(histories: Sequence[History], log: Iterable[Logged], spans: Spans) -> list[Finding]:
    """Returns all findings, by check, topic and place. `log` holds all records within `spans`."""
    records = sorted(log, key=lambda each: each[:3])
    found = {
        each for each in reference.findings(histories, records, spans) if each.check != checks.AMBIGUOUS.name
    }
    sends: defaultdict[tuple[str, bytes | None], list[_Send]] = defaultdict(list)
    for number, history in enumerate(histories):
        for event in history.events:
            if isinstance(event, Sent):
                sends[event.topic, event.value].append(_Send(number, event.record, event.partition))
    names = [history.name for history in histories]
    return in_order(
        found | {*_foreign(records, sends, names), *_gaps(records, spans), *_reordered(records, sends, names)}
    )


def _foreign(records: Sequence[Logged], sends: _Sends, names: Sequence[str]) -> Iterator[Finding]:
    for topic, partition, offset, value in records:
        known = sends.get((topic, value))
        if not known:
            yield Finding(checks.FOREIGN.name, topic, partition, offset, checks.NEVER_SENT)
        elif all(send.partition not in (None, partition) for send in known):
            first = known[0]
            detail = checks.SENT_ELSEWHERE.format(
                record=first.record, history=names[first.history], partition=first.partition
            )
            yield Finding(checks.FOREIGN.name, topic, partition, offset, detail)


def _gaps(records: Sequence[Logged], spans: Spans) -> Iterator[Finding]:
    places = {record[:3] for record in records}
    for (topic, partition), (start, end) in spans.items():
        for offset in range(start, end):
            if (topic, partition, offset) not in places:
                detail = checks.NO_RECORD.format(start=start, end=end)
                yield Finding(checks.GAP.name, topic, partition, offset, detail)


def _reordered(records: Sequence[Logged], sends: _Sends, names: Sequence[str]) -> Iterator[Finding]:
    latest: dict[tuple[str, int, int], int] = {}
    for topic, partition, offset, value in records:
        known = sends.get((topic, value), ())
        if len(known) != 1:
            continue
        (send,) = known
        key = (topic, partition, send.history)
        later = latest.get(key, -1)
        if send.record < later:
            detail = checks.LOGGED_OUT_OF_ORDER.format(
                record=send.record, history=names[send.history], later=later
            )
            yield Finding(checks.REORDERED.name, topic, partition, offset, detail)
        latest[key] = max(later, send.record)
