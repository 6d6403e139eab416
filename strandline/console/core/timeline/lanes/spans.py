"""What begins and ends: requests, reassignments. Several may be under way at once."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from strandline.console.core.timeline.places import NO_REF, Ref

UNKNOWN_MS: Final = -1


class Span:
    """One request or reassignment. Times are UNKNOWN_MS until they are known; `ref` is its newest event."""

    __slots__ = (
        "broker", "command", "from_ms", "id", "label", "partition", "received_ms", "ref", "state", "topic",
        "until_ms",
    )  # fmt: skip

    def __init__(self, id: str, command: str, topic: str, partition: int, broker: int, from_ms: int) -> None:
        self.id = id
        self.command = command
        self.topic = topic
        self.partition = partition
        self.broker = broker
        self.label = ""
        self.from_ms = from_ms
        self.received_ms = UNKNOWN_MS
        self.until_ms = UNKNOWN_MS
        self.state = ""
        self.ref: Ref = NO_REF

    @property
    def open(self) -> bool:
        return self.until_ms == UNKNOWN_MS

    def overlaps(self, from_ms: int, until_ms: int) -> bool:
        """Whether a part of it is in this time."""
        return self.from_ms < until_ms and (self.open or self.until_ms >= from_ms)


class Drawn:
    """Spans as they are drawn: as one, from the first beginning to the last end; None if one is open."""

    __slots__ = ("from_ms", "spans", "until_ms")

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = spans
        self.from_ms = min(span.from_ms for span in spans)
        self.until_ms = None if any(span.open for span in spans) else max(span.until_ms for span in spans)

    @property
    def count(self) -> int:
        """The number of spans that it stands for."""
        return len(self.spans)

    @property
    def last_ms(self) -> int:
        """When the last of them began."""
        return max(span.from_ms for span in self.spans)

    def parts(self, most: int) -> list[Drawn]:
        """The first of them, each for itself."""
        return [Drawn([span]) for span in sorted(self.spans, key=lambda span: span.from_ms)[:most]]


class Spans:
    """Spans by the time at which they begin."""

    __slots__ = ("_longest_ms", "_open", "_spans", "_starts")

    def __init__(self) -> None:
        self._starts = array("q")
        self._spans: list[Span] = []
        self._longest_ms = 0
        self._open: dict[str, Span] = {}

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, span: Span) -> None:
        here = bisect_right(self._starts, span.from_ms)
        self._starts.insert(here, span.from_ms)
        self._spans.insert(here, span)
        self.noted(span)

    def noted(self, span: Span) -> None:
        """Call this after its end has become known."""
        if span.open:
            self._open[span.id] = span
        else:
            self._open.pop(span.id, None)
            self._longest_ms = max(self._longest_ms, span.until_ms - span.from_ms)

    def remove(self, span: Span) -> None:
        """Takes one out, so that it can be added with another beginning."""
        here = bisect_left(self._starts, span.from_ms)
        while here < len(self._spans) and self._spans[here] is not span:
            here += 1
        if here < len(self._spans):
            del self._starts[here], self._spans[here]
            self._open.pop(span.id, None)

    def trim(self, floor_ms: int) -> list[Span]:
        """Forgets those that began and ended before a time, and returns them. Open ones stay."""
        gone = bisect_right(self._starts, floor_ms)
        old = self._spans[:gone]
        kept = [span for span in old if span.open or span.until_ms > floor_ms]
        if len(kept) == len(old):
            return []
        self._spans[:gone] = kept
        self._starts[:gone] = array("q", (span.from_ms for span in kept))
        return [span for span in old if not (span.open or span.until_ms > floor_ms)]

    def oldest_open(self) -> Span | None:
        """The one that began first of those that have not ended; None without one."""
        return min(self._open.values(), key=lambda span: span.from_ms, default=None)

    def within(self, from_ms: int, until_ms: int) -> Iterator[Span]:
        """Those of which a part is in this time, by their beginnings."""
        first = bisect_left(self._starts, from_ms)
        crossing = bisect_left(self._starts, from_ms - self._longest_ms, 0, first)
        early = [span for span in self._spans[crossing:first] if span.overlaps(from_ms, until_ms)]
        older = [
            span
            for span in self._open.values()
            if span.from_ms < (self._starts[crossing] if crossing < first else from_ms)
        ]
        yield from sorted(older, key=lambda span: span.from_ms)
        yield from early
        yield from self._spans[first : bisect_left(self._starts, until_ms)]

    def drawn(self, from_ms: int, until_ms: int, pixel_ms: float) -> Iterator[Drawn]:
        """The spans within a view, at most one a pixel: those that begin in one pixel are drawn as one."""
        group: list[Span] = []
        pixel = -1
        for span in self.within(from_ms, until_ms):
            here = int((max(span.from_ms, from_ms) - from_ms) / pixel_ms)
            if group and here != pixel:
                yield Drawn(group)
                group = []
            pixel = here
            group.append(span)
        if group:
            yield Drawn(group)
