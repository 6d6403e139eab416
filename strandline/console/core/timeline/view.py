"""What a browser asks of the timeline, and which rows that is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from strandline.console.core.timeline.all_rows import Rows
from strandline.console.core.timeline.lanes.spans import Span
from strandline.console.core.timeline.rows import BrokerRow, GroupRow, PartitionRow, Row, TaskRow

RowKind = Literal["partition", "broker", "group", "task", "request", "transaction"]
ROW_KINDS: Final = ("partition", "broker", "group", "task", "request", "transaction")
LANE_KINDS: Final = (
    "leader", "isr", "offsets", "request", "reassignment", "marks", "generation", "owned", "learner", "alive",
    "drain", "transaction",
)  # fmt: skip

PARTS_MAX: Final = 8
"""An item that stands for several has at most this number of them, the first."""


@dataclass(frozen=True, slots=True)
class View:
    """A part of the timeline: times in milliseconds since 1970, `width` in pixels, None and empty for all.

    `first` and `count` are the rows of the page. `changed`: only rows of which an event is in this time.
    """

    rows: RowKind
    from_ms: int
    until_ms: int
    width: int
    first: int = 0
    count: int = 100
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    group: str | None = None
    transaction: str | None = None
    """A transactional id: only of one that is named there are transactions."""
    kinds: frozenset[str] = frozenset()
    text: str = ""
    changed: bool = False
    offsets_of: frozenset[str] = frozenset()
    """The topics whose high watermarks and log ends may be shown."""
    parts: int = PARTS_MAX
    """How many of the items that it stands for an item has."""

    @property
    def pixel_ms(self) -> float:
        return (self.until_ms - self.from_ms) / self.width

    def coarse(self, width: int) -> View:
        """The same with at most `width` pixels, and without the parts of items."""
        return replace(self, width=min(width, self.width), parts=0)

    def wants(self, lane: str) -> bool:
        """Whether lanes of this kind are asked for."""
        return not self.kinds or lane in self.kinds


def matching(rows: Rows, view: View) -> Iterator[Row | Span | None]:
    """The rows of a view, in their order, and None for each that does not match: so a caller may pause
    between any two, also if few match. Requests: the newest first."""
    text = view.text.casefold()
    match view.rows:
        case "partition":
            for partition in rows.partitions:
                yield partition if _is_partition(partition, view, text) else None
        case "broker":
            for broker in rows.brokers:
                yield broker if _is_broker(broker, view, text) else None
        case "group":
            for group in rows.groups:
                yield group if _is_group(group, view, text) else None
        case "task":
            for task in rows.tasks:
                yield task if _is_task(task, view, text) else None
        case "request":
            spans = list(rows.requests.within(view.from_ms, view.until_ms))
            for span in reversed(spans):
                yield span if _is_request(span, view, text) else None
        case "transaction":
            return  # no window has them


def _is_partition(row: PartitionRow, view: View, text: str) -> bool:
    return (
        (view.topic is None or row.topic == view.topic)
        and (view.partition is None or row.partition == view.partition)
        and (view.broker is None or view.broker in row.brokers)
        and (not text or text in row.name.casefold())
        and (not view.changed or bool(row.events.between(view.from_ms, view.until_ms, 1)))
    )


def _is_broker(row: BrokerRow, view: View, text: str) -> bool:
    return (view.broker is None or row.broker == view.broker) and (not text or text in row.name)


def _is_group(row: GroupRow, view: View, text: str) -> bool:
    return (
        (view.group is None or row.group == view.group)
        and (not text or text in row.group.casefold())
        and (not view.changed or bool(row.events.between(view.from_ms, view.until_ms, 1)))
    )


def _is_task(row: TaskRow, view: View, text: str) -> bool:
    return (view.group is None or row.group == view.group) and (not text or text in row.name.casefold())


def _is_request(span: Span, view: View, text: str) -> bool:
    return (
        span.overlaps(view.from_ms, view.until_ms)
        and (view.topic is None or span.topic == view.topic)
        and (view.partition is None or span.partition == view.partition)
        and (view.broker is None or span.broker == view.broker)
        and (not text or text in request_name(span).casefold())
    )


def request_name(span: Span) -> str:
    """A request for people."""
    return f"{span.command} of {span.topic}-{span.partition} to broker {span.broker}"
