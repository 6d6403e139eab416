"""Selects the state changes of a stream: the requested ones among those read, each step once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from strandline.client.events.identities import Identities
from strandline.client.reading.records import ConsumerRecord
from strandline.config.limits import KIB
from strandline.errors import InvalidRequest
from strandline.vocabulary.admin import StateChangesAnswer, StateChangesQuery
from strandline.vocabulary.state_changes import StateChangeEvent, parse_event

ANSWER_BYTES_MAX: Final = 256 * KIB
FILTERED_BROKERS_MAX: Final = 10_000


class EventSelection:
    """The selection of one stream. `malformed` has the records that were skipped as no state changes."""

    def __init__(self, query: StateChangesQuery) -> None:
        self._query = query
        self._seen = Identities()
        self.malformed: list[tuple[ConsumerRecord, str]] = []

    def answers(
        self, records: Sequence[ConsumerRecord], next_offsets: tuple[int, ...]
    ) -> Iterator[StateChangesAnswer]:
        """The requested records of one batch, in answers of a bounded size.

        A reader that continues after any of them misses nothing, and gets nothing again.
        """
        self.malformed = []
        wanted: list[bytes] = []
        size = 0
        for record in records:
            event = self._parsed(record)
            if event is None or not matches(event, self._query) or not self._seen.first(event.identity):
                continue
            value = record.value or b""
            if wanted and size + len(value) > ANSWER_BYTES_MAX:
                here = list(next_offsets)
                here[record.partition] = record.offset
                yield StateChangesAnswer(wanted, tuple(here))
                wanted, size = [], 0
            wanted.append(value)
            size += len(value)
        if wanted:
            yield StateChangesAnswer(wanted, next_offsets)

    def _parsed(self, record: ConsumerRecord) -> StateChangeEvent | None:
        try:
            return parse_event(record.value)
        except ValueError as error:
            self.malformed.append((record, str(error)))
            return None


def check(query: StateChangesQuery) -> None:
    """Raises InvalidRequest that names the value."""
    if query.partition < -1:
        raise InvalidRequest(f"partition = {query.partition}: give a number from 0 on, or -1 for all")
    if query.partition >= 0 and not query.topic:
        raise InvalidRequest(f"partition = {query.partition} without a topic: name its topic, or give -1")
    if query.since_ms < 0:
        raise InvalidRequest(f"since_ms = {query.since_ms}: give milliseconds since 1970")
    for offset in query.from_offsets:
        if offset < 0:
            raise InvalidRequest(f"from_offsets has {offset}: give offsets from 0 on")
    for broker in query.brokers:
        if broker < 0:
            raise InvalidRequest(f"brokers has {broker}: give ids from 0 on")
    if len(query.brokers) > FILTERED_BROKERS_MAX:
        raise InvalidRequest(
            f"{len(query.brokers)} brokers: name at most {FILTERED_BROKERS_MAX}, or none for all",
            limit=FILTERED_BROKERS_MAX,
        )


def matches(event: StateChangeEvent, query: StateChangesQuery) -> bool:
    """True if the event was requested; a broker's events are those about it."""
    return (
        (not query.brokers or event.broker in query.brokers)
        and (not query.topic or event.topic == query.topic)
        and (query.partition < 0 or event.key.partition == query.partition)
        and event.at_ms >= query.since_ms
    )
