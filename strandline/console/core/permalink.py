"""Addresses of the timeline: what it shows stands in its address, so that a link opens the same view."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode

SPAN_MS: Final = 60_000
"""The time that a link shows around a moment."""


def timeline_link(
    *,
    topic: str | None = None,
    partition: int | None = None,
    broker: int | None = None,
    group: str | None = None,
    transaction: str | None = None,
    at_ms: int | None = None,
    span_ms: int = SPAN_MS,
    event: str | None = None,
    rows: str | None = None,
) -> str:
    """The timeline of a topic, partition, broker, group or transactional id: `span_ms` around the moment
    `at_ms`, or live.

    `event`: the id of an event to show. `rows`: what the rows are, if it is not what is named.
    """
    if rows is None:
        only_broker = topic is None and broker is not None
        rows = "group" if group is not None else "broker" if only_broker else "partition"
        rows = "transaction" if transaction is not None else rows
    asked: dict[str, object] = {"rows": rows}
    if at_ms is None:
        asked["follow"] = 1
    else:
        asked |= {"from": max(0, at_ms - span_ms // 2), "until": at_ms + span_ms // 2}
    named = {
        "topic": topic,
        "partition": partition,
        "broker": broker,
        "group": group,
        "transaction": transaction,
        "event": event,
    }
    return (
        f"/timeline?{urlencode(asked | {name: value for name, value in named.items() if value is not None})}"
    )


def group_link(group: str) -> str:
    """The page of a group.

    >>> group_link("a/b c"), group_link("..")
    ('/groups/a%2Fb%20c', '/groups?group=..')
    """
    return _page("groups", "group", group)


def transaction_link(transactional_id: str) -> str:
    """The page of a transactional id."""
    return _page("transactions", "id", transactional_id)


def stream_link(application: str) -> str:
    """The page of a stream application."""
    return _page("streams", "application", application)


def _page(place: str, kind: str, name: str) -> str:
    """Browsers resolve `.` and `..` in a path, however they are encoded."""
    if name in (".", ".."):
        return f"/{place}?{urlencode({kind: name})}"
    return f"/{place}/{quote(name, safe='')}"
