"""The timeline as JSON: its rows in a time, one event explained, a stream that says when it has changed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from strandline.console.core.timeline.explanation import explain
from strandline.console.core.timeline.facts.transactions import explained, row_of
from strandline.console.core.timeline.lanes.spans import Span
from strandline.console.core.timeline.places import TOPICS, Ref, Source, event_id, parse_id, unpack
from strandline.console.core.timeline.rows import PartitionRow, Row
from strandline.console.core.timeline.view import View
from strandline.console.feeds.event_topic import FOLLOWING
from strandline.console.feeds.transaction_log import Looked, TransactionLog
from strandline.console.web.context import Console
from strandline.console.web.live import changes
from strandline.console.web.timeline_views import drawn_rows, json_answer, matching_rows, view_of
from strandline.consumer.consumer import Consumer
from strandline.errors import UnknownTopicOrPartition
from strandline.ids import TopicPartition

CHANGES_PAUSE_S: Final = 0.25
LIVE_MS: Final = 60_000
"""Watermarks are read for a view that ends at most this long ago."""


def routes(console: Console) -> Sequence[BaseRoute]:
    """What is below `/api/timeline`."""
    feed = console.timeline
    transactions = TransactionLog(console.clock)

    async def timeline(request: Request) -> Response:
        now_ms = console.clock.wall_ms()
        view = view_of(request, now_ms)
        if view.rows == "transaction":
            await _check_readable(console, request, Source.TRANSACTION)
            return json_answer(await _transactions(console, request, transactions, view, now_ms))
        source = Source.GROUP if view.rows in ("group", "task") else Source.STATE
        await _check_readable(console, request, source)
        topic, window = feed.topics[source], feed.window
        topic.further_back(view.from_ms)
        found = await matching_rows(window.rows, view)
        page = found[view.first : view.first + view.count]
        if view.rows == "partition" and view.wants("offsets"):
            view = await _with_offsets(console, request, view, page, now_ms)
        rows, coarse = await drawn_rows(page, view, window.rows)
        return json_answer(
            {
                "from": view.from_ms,
                "until": view.until_ms,
                "now": now_ms,
                "kept_from": window.kept_from(source),
                "read_until": topic.read_until_ms,
                "reading_back": topic.reading_back,
                "complete": topic.complete,
                "feeds": [
                    {"topic": each.topic, "state": feed.state_of(source)}
                    for source, each in feed.topics.items()
                ],
                "passed_over": window.passed_over,
                "left_out": window.rows.left_out,
                "rows_total": len(found),
                "first": view.first,
                "version": window.version,
                "coarse": coarse,
                "rows": rows,
            }
        )

    async def one_event(request: Request) -> Response:
        try:
            ref = parse_id(request.path_params["id"])
        except ValueError as error:
            raise HTTPException(400, str(error)) from None
        await _check_readable(console, request, unpack(ref)[0])
        if unpack(ref)[0] is Source.TRANSACTION:
            return json_answer(_of_transaction(transactions, console.admins.admin(request), ref))
        found = feed.window.found(ref) or await feed.read_one(ref)
        if found is None:
            raise HTTPException(404, _missing(ref, feed.window.first_seen))
        at_ms, said = found
        return json_answer(explain(feed.window, ref, said, at_ms))

    def newest() -> dict[str, int]:
        return {"version": feed.window.version, "newest": feed.window.newest_ms}

    async def live(request: Request) -> Response:
        await _check_readable(console, request, Source.STATE)
        return console.streams.respond(request, changes(console.timeline_pulse, CHANGES_PAUSE_S, newest))

    return [
        Route("/api/timeline", timeline),
        Route("/api/timeline/live", live),
        Route("/api/timeline/event/{id:path}", one_event),
    ]


async def _with_offsets(
    console: Console, request: Request, view: View, page: Sequence[Row | Span], now_ms: int
) -> View:
    """The view with the topics whose offsets this caller may see. Has those of the page read, if it shows the
    present."""
    known = frozenset(each.name for each in (await console.seen(request)).topics)
    if view.until_ms > now_ms - LIVE_MS:
        shown = (row for row in page if isinstance(row, PartitionRow) and row.topic in known)
        console.timeline.offsets.looked_at(TopicPartition(row.topic, row.partition) for row in shown)
    return replace(view, offsets_of=known)


def _of_transaction(log: TransactionLog, caller: Hashable, ref: Ref) -> dict[str, Any]:
    """An event of a transactional id, explained. Raises HTTPException 404."""
    change = log.found(caller, *unpack(ref)[1:])
    if change is None:
        raise HTTPException(404, f"{event_id(ref)} is not kept: look at its transactional id first")
    return explained(change)


async def _transactions(
    console: Console, request: Request, log: TransactionLog, view: View, now_ms: int
) -> dict[str, Any]:
    """The row of the one transactional id that the view names; none without it. Raises StrandlineError."""
    looked = Looked("")
    state = "name one transactional id: all of them would be too many"
    if view.transaction is not None:
        connection = console.admins.connection(request)
        state = FOLLOWING
        try:
            looked = await log.look(
                console.admins.admin(request),
                view.transaction,
                lambda: Consumer(connection.bootstrap, offset_reset="none", **connection.arguments),
            )
        except UnknownTopicOrPartition:
            state = "there is no such topic yet: it is made with the first transaction"
    page = [row_of(looked.transactional_id, looked.changes)] if looked.changes else []
    rows, coarse = await drawn_rows(page, view, console.timeline.window.rows)
    return {
        "from": view.from_ms,
        "until": view.until_ms,
        "now": now_ms,
        "kept_from": looked.kept_from_ms,
        "read_until": looked.read_until_ms,
        "reading_back": False,
        "complete": looked.kept_from_ms is None,
        "feeds": [{"topic": TOPICS[Source.TRANSACTION], "state": state}],
        "passed_over": 0,
        "left_out": 0,
        "rows_total": len(page),
        "first": 0,
        "version": looked.version,
        "coarse": coarse,
        "rows": rows,
    }


def _missing(ref: Ref, first_seen: int) -> str:
    """Why there is no such event."""
    source, _, number = unpack(ref)
    if source is Source.SEEN and number < first_seen:
        return "this console saw it before it was started again; it is no longer known"
    return f"there is no event {event_id(ref)}, or it is not kept any longer"


async def _check_readable(console: Console, request: Request, source: Source) -> None:
    """Refuses a caller who may not know the topic that the events are from. Raises HTTPException 403."""
    topic = TOPICS.get(source, TOPICS[Source.STATE])
    seen = console.cluster.seen
    may_be_there = seen.read_at_ms is None or any(each.name == topic for each in seen.topics)
    if may_be_there and not await console.admins.may_read(request, topic):
        raise HTTPException(403, f"you may not read {topic}, which has these events")
