"""What the console knows of the past: the newest events of a cluster, within bounds.

Feeds put records and observations in; views take rows and lanes out. Nothing here reads a clock.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Final

from strandline.client.events.identities import Identities
from strandline.console.core.timeline.all_rows import Rows
from strandline.console.core.timeline.explanation import Event
from strandline.console.core.timeline.facts import group_events, observations, state_changes
from strandline.console.core.timeline.facts.observations import SeenEvent, SeenState
from strandline.console.core.timeline.facts.times import AHEAD_MS_MAX, shown_ms
from strandline.console.core.timeline.journal import Journal, Kept, Record
from strandline.console.core.timeline.lanes.samples import Samples
from strandline.console.core.timeline.places import Ref, Source, pack, unpack
from strandline.console.core.timeline.rows import PartitionRow, Row
from strandline.ids import NO_BROKER
from strandline.report.text.group_events import read_event
from strandline.vocabulary.admin import BrokerDescription
from strandline.vocabulary.metadata import TopicMetadata
from strandline.vocabulary.state_changes import NotAStateChange, parse_event

EVENTS_KEPT: Final = 250_000
SEEN_KEPT_MAX: Final = 20_000
RECORD_BYTES_MAX: Final = 256 * 1024
"""A larger record is no event of the system: it is passed over."""

Added = tuple[int, list[Row]]
"""When an event is shown, and its rows: none if it was met before, or beyond the limit of rows."""


class Window:
    """The events of `__state_changes` and of `__group_events`, at most `events_kept` of each."""

    def __init__(
        self, events_kept: int = EVENTS_KEPT, changed: Callable[[], None] = lambda: None, first_seen: int = 0
    ) -> None:
        """`first_seen`: the number of the first event that the console sees. A later start has to have a
        greater one, so that no two events ever have one id: the time in ms does, with fewer events than
        milliseconds."""
        self._kept_max = {
            Source.STATE: events_kept,
            Source.GROUP: events_kept,
            Source.SEEN: min(events_kept, SEEN_KEPT_MAX),
        }
        self._changed = changed
        self._journals: defaultdict[Source, dict[int, Journal[Row]]] = defaultdict(dict)
        self._seen = SeenState()
        self._seen_next = first_seen
        self.first_seen = first_seen
        self._topics: tuple[TopicMetadata, ...] = ()
        self._topics_ms = 0
        self._met = Identities()
        self.rows = Rows()
        self.version = 0
        """Another number after each change."""
        self.newest_ms = 0
        """The time of the newest event."""
        self.passed_over = 0
        """Records that are no events."""
        self.dropped: set[Source] = set()
        """The sources of which something that was read is not kept any longer."""

    # --- in -------------------------------------------------------------------------------------

    def read(
        self, source: Source, partition: int, records: Sequence[Record], now_ms: int, *, older: bool = False
    ) -> set[str]:
        """Adds records of one partition in the order of offsets: the newest, or, with `older`, those just
        before the oldest that are kept. Returns the topics whose partitions they are about."""
        put = self._put_state if source is Source.STATE else self._put_group
        journal = self._journals[source].setdefault(partition, Journal())
        touched: dict[Row, None] = {}
        kept: list[Kept] = []
        topics: set[str] = set()
        for record in records:
            if len(record.value) > RECORD_BYTES_MAX or (added := put(partition, record, now_ms)) is None:
                self.passed_over += 1
                continue
            at_ms, rows = added
            if not rows:
                continue
            if isinstance(rows[0], PartitionRow):
                topics.add(rows[0].topic)
            self.newest_ms = max(self.newest_ms, at_ms)
            if older:
                kept.append(Kept(record, at_ms))
                touched.update(dict.fromkeys(rows))
            else:
                journal.append(Kept(record, at_ms), rows)
        journal.prepend(kept, touched)
        self._keep_within(source)
        self._has_changed()
        return topics

    def _put_state(self, partition: int, record: Record, now_ms: int) -> Added | None:
        try:
            event = parse_event(record.value)
        except NotAStateChange:
            return None
        at_ms = shown_ms(event.at_ms, record.timestamp_ms, now_ms)
        if not self._met.first(event.identity):
            return at_ms, []
        ref = pack(Source.STATE, partition, record.offset)
        return at_ms, state_changes.put(self.rows, event, at_ms, ref)

    def _put_group(self, partition: int, record: Record, now_ms: int) -> Added | None:
        event = read_event(record.value)
        if event is None:
            return None
        at_ms = shown_ms(event["at_ms"], record.timestamp_ms, now_ms, AHEAD_MS_MAX)
        ref = pack(Source.GROUP, partition, record.offset)
        return at_ms, group_events.put(self.rows, event, at_ms, ref, record.offset)

    def _keep_within(self, source: Source) -> None:
        journals = self._journals[source]
        while sum(each.count for each in journals.values()) > self._kept_max[source]:
            full = [each for each in journals.values() if each.has_chunks]
            if not full:
                return
            oldest = min(full, key=lambda each: each.oldest_ms or 0)
            gone = oldest.drop_oldest()
            assert gone is not None
            self.dropped.add(source)
            floor_ms = min(gone.newest_ms, oldest.oldest_ms or gone.newest_ms)
            self.rows.trim(gone.rows, floor_ms)
            if source is Source.STATE:
                self.rows.trim_requests(floor_ms)
            elif source is Source.GROUP:
                self.rows.rebalances.trim(floor_ms)
            else:
                self.rows.answers.trim(floor_ms)

    def forget(self, source: Source) -> None:
        """Forgets the events of a topic, since it is another one now under the same name."""
        self._journals.pop(source, None)
        self.dropped.discard(source)
        if source is Source.GROUP:
            self.rows.forget_groups()
        else:
            self._met = Identities()
            self.rows.forget_partitions()
            self._seen.partitions(self.rows, self._topics, self._topics_ms)
        self._has_changed()

    # --- what was seen ------------------------------------------------------------------------------

    def seen_brokers(
        self, described: Iterable[BrokerDescription], controller: int | None, at_ms: int
    ) -> None:
        """Adds the brokers as the active controller describes them."""
        events = [
            *self._seen.brokers(self.rows, described, at_ms),
            *self._seen.controller(controller, at_ms),
        ]
        for event in events:
            self._put_seen(event)
        if events:
            self._keep_within(Source.SEEN)
            self._has_changed()

    def seen_silence(self, at_ms: int) -> None:
        """Notes that no broker has answered since a time."""
        self._seen_answers(observations.SILENT, at_ms)

    def seen_answer(self, at_ms: int) -> None:
        """Notes that a broker answered, after none did."""
        self._seen_answers(observations.ANSWERS, at_ms)

    def _seen_answers(self, kind: str, at_ms: int) -> None:
        self._put_seen(SeenEvent(kind, NO_BROKER, max(at_ms, self.rows.answers.last_ms)))
        self._keep_within(Source.SEEN)
        self._has_changed()

    def seen_topics(self, topics: tuple[TopicMetadata, ...], at_ms: int) -> None:
        """Adds the partitions that exist, with their leaders: many have no event within the window."""
        self._topics, self._topics_ms = topics, at_ms
        if self._seen.partitions(self.rows, topics, at_ms):
            self._has_changed()

    def seen_offsets(self, topic: str, partition: int, at_ms: int, watermark: int, end: int) -> None:
        """Adds a high watermark and the end of the leader's log."""
        row = self.rows.known_partition(topic, partition)
        if row is not None:
            row.samples = row.samples or Samples()
            row.samples.add(at_ms, watermark, end)

    def _put_seen(self, event: SeenEvent) -> None:
        ref = pack(Source.SEEN, 0, self._seen_next)
        record = Record(self._seen_next, event.at_ms, json.dumps(asdict(event)).encode())
        self._seen_next += 1
        touched = observations.put(self.rows, event, ref)
        self.newest_ms = max(self.newest_ms, event.at_ms)
        self._journals[Source.SEEN].setdefault(0, Journal()).append(Kept(record, event.at_ms), touched)

    def _has_changed(self) -> None:
        self.version += 1
        self._changed()

    # --- out ------------------------------------------------------------------------------------

    def event(self, ref: Ref) -> Event | None:
        """An event, None if its record is not kept."""
        found = self.found(ref)
        return None if found is None else found[1]

    def found(self, ref: Ref) -> tuple[int, Event] | None:
        """When an event is shown, and the event; None if its record is not kept."""
        source, partition, offset = unpack(ref)
        journal = self._journals[source].get(partition)
        kept = None if journal is None else journal.get(offset)
        if kept is None:
            return None
        event = parsed(source, kept[1])
        return None if event is None else (kept[0], event)

    def kept_from(self, source: Source) -> int | None:
        """The time from which on all events of a topic are here, that were read; None without any."""
        oldest = [each.oldest_ms for each in self._journals[source].values()]
        return max((each for each in oldest if each is not None), default=None)

    def oldest_ms(self, source: Source, partition: int) -> int | None:
        """The time at which the oldest records of one partition were written."""
        journal = self._journals[source].get(partition)
        return None if journal is None else journal.oldest_ms

    def count(self, source: Source) -> int:
        """The number of events that are kept."""
        return sum(each.count for each in self._journals[source].values())

    def room(self, source: Source) -> int:
        """How many older events may be read back."""
        return 0 if source in self.dropped else max(0, self._kept_max[source] - self.count(source))


def parsed(source: Source, value: bytes) -> Event | None:
    """The event of a record; None if it is none."""
    match source:
        case Source.STATE:
            try:
                return parse_event(value)
            except NotAStateChange:
                return None
        case Source.GROUP:
            return read_event(value)
        case Source.SEEN:
            return SeenEvent(**json.loads(value))
        case Source.TRANSACTION:
            return None  # no window keeps them
