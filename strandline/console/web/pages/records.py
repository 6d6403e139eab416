"""The pages of records: a part of a partition, one record, a search, a live tail, and an export."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from strandline.client.arguments import INT32_MAX, INT64_MAX
from strandline.config.limits import TOPIC_NAME_LENGTH_MAX
from strandline.console.clients import Clients
from strandline.console.core.forms import Form
from strandline.console.core.missing import deleted_ms
from strandline.console.core.records.asked import From, first_offset
from strandline.console.core.records.needle import (
    HITS_MAX,
    RECORDS_MAX,
    WINDOW_FIRST,
    WINDOW_MAX,
    Needle,
    Progress,
)
from strandline.console.core.records.rows import (
    ALONE,
    IN_A_LIST,
    Bounds,
    Fields,
    ProblemRow,
    RecordRow,
    gap_before,
    record_row,
)
from strandline.console.core.records.shown import As
from strandline.console.records import searching, streaming
from strandline.console.records.pages import Part, log_of, offset_asked, read_one, read_page
from strandline.console.records.reading import AnotherTopic, Readers, Row, Undecodable, check_topic
from strandline.console.web.changes import clients_of
from strandline.console.web.context import Console
from strandline.console.web.errors import fragment
from strandline.console.web.live import Stream, event
from strandline.errors import ResourceNotFound, StrandlineError, UnknownTopicOrPartition
from strandline.ids import TopicId, TopicPartition
from strandline.vocabulary.log_position import LogPosition
from strandline.vocabulary.metadata import TopicMetadata

COUNT_USUAL: Final = 50
COUNT_MAX: Final = 500
LAST_USUAL: Final = 10_000
FOLLOWED_S: Final = 5.0
"""A live tail has the state of its topic read this often: the event of a deletion may come late."""
DATED_S_MAX: Final = 3.0
"""How long a live tail of a deleted topic waits to learn since when the topic is gone."""

_FROM_WORDS: Final = {
    From.END: "the last ones",
    From.EARLIEST: "the first ones",
    From.OFFSET: "an offset",
    From.TIME: "a time",
}


def routes(console: Console) -> Sequence[BaseRoute]:
    """The pages below `/topics/TOPIC/PARTITION`."""
    pages = RecordPages(console)
    of = "/topics/{topic}/{partition}"
    return [
        Route(f"{of}/records", pages.page),
        Route(f"{of}/records/{{offset}}", pages.one),
        Route(f"{of}/records/{{offset}}/{{what}}", pages.whole),
        Route(f"{of}/search", pages.search),
        Route(f"{of}/tail", pages.tail),
        Route(f"{of}/export", pages.export),
    ]


class RecordPages:
    """The pages of records of one console, with the readers that they share."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._clock = console.clock
        self._readers = Readers()

    async def page(self, request: Request) -> Response:
        """Records from an offset, a time, the start or the end."""
        name, given = _name(request), Form(request.query_params)
        part, at = _part(name, given)
        how = As(given.choice("as", list(As)))
        clients = clients_of(self._console, request)
        found = await read_page(self._readers, clients, self._clock, part)
        older = {"from": From.OFFSET, "at": max(found.ends.start, found.first - part.count)}
        of = _of(found.topic_id)
        common = {"count": part.count, "as": how, **of}
        return await self._page(
            request,
            "records/page.html",
            name,
            how,
            found.topic_id,
            title=f"Records of {name}",
            part=part,
            at=at,
            froms=_FROM_WORDS,
            page=found,
            rows=rows_of(found.rows, how, IN_A_LIST, compacts=found.compacts),
            older=urlencode({**older, **common}),
            newer=urlencode({"from": From.OFFSET, "at": found.next_offset, **common}),
            this=urlencode({"from": From.OFFSET, "at": found.first, "until": found.next_offset, **of}),
            rest=urlencode({"from": From.OFFSET, "at": found.first, **of}),
            tail=urlencode({"first": found.next_offset, "as": how, **of}),
        )

    async def one(self, request: Request) -> Response:
        """One record, with more of its value than a list has."""
        how = As(Form(request.query_params).choice("as", list(As)))
        name, topic_id, record = await self._record(request)
        (row,) = rows_of([record], how, ALONE, compacts=False)
        title = f"Record {record.offset} of {name}"
        return await self._page(request, "records/record.html", name, how, topic_id, title=title, row=row)

    async def whole(self, request: Request) -> Response:
        """The bytes of a key, a value, or the value of a header, as a file."""
        name, _, record = await self._record(request)
        what = request.path_params["what"]
        parts = {"key": record.key, "value": record.value}
        parts |= {str(number): value for number, (_, value) in enumerate(record.headers)}
        data = parts.get(what)
        if data is None:
            raise ResourceNotFound(f"record {record.offset} of {name} has no {what[:100]}")
        file = f"{name}-{record.offset}.{what}"
        # As a file, and as nothing that a browser would run or show: these bytes are anyone's.
        headers = {"Content-Disposition": f'attachment; filename="{file}"'}
        return Response(data, media_type="application/octet-stream", headers=headers)

    async def search(self, request: Request) -> Response:
        """One slice of a search, or the form for it."""
        name, given = _name(request), Form(request.query_params)
        how = As(given.choice("as", list(As)))
        last = given.whole("last", 1, RECORDS_MAX, LAST_USUAL)
        text, hexadecimal = given.raw("text", chars_max=1_000), given.text("bytes", chars_max=2_000)
        found, on, topic_id = None, "", _topic_id(given)
        if text or hexadecimal:
            needle = Needle.read(text, hexadecimal)
            clients = clients_of(self._console, request)
            topic, ends = await log_of(clients.admin, name, topic_id)
            topic_id = topic.topic_id
            so_far = _progress(given) or searching.begin(ends, last)
            found = await searching.search(
                self._readers, clients, self._clock, name, topic_id, needle, so_far
            )
            at = found.progress
            asked = {"text": text, "bytes": hexadecimal, "last": last, "as": how}
            there = {"start": at.start, "at": at.at, "end": at.end, "hits": at.hits, "window": at.window}
            on = f"{_base(name)}/search?{urlencode({**asked, **there, **_of(topic_id)})}"
        return await self._page(
            request,
            "records/search.html",
            name,
            how,
            topic_id,
            title=f"Search in {name}",
            text=text,
            hexadecimal=hexadecimal,
            last=last,
            found=found,
            on=on,
            hits_max=HITS_MAX,
            rows=rows_of(found.hits if found else (), how, IN_A_LIST, compacts=False, gaps=False),
        )

    async def tail(self, request: Request) -> Response:
        """New records as events, each with rows of HTML; at last one that says why there are no more."""
        name, given = _name(request), Form(request.query_params)
        how = As(given.choice("as", list(As)))
        clients = clients_of(self._console, request)
        after, wanted = given.whole("first", 0, INT64_MAX), _topic_id(given)

        async def events() -> AsyncGenerator[str, None]:
            template = self._console.templates.get_template("records/tail.html")
            try:
                topic, ends = await log_of(clients.admin, name, wanted)
                first = min(max(after, ends.start), max(ends.start, ends.high_watermark))
                at, asked = LogPosition(first, topic.topic_id), _asked(how, topic.topic_id)
                coming = streaming.tail(
                    self._readers, clients, self._clock, name, at, lambda: self._console.pulse.closed
                )
                read_again_s = self._clock.monotonic()
                async with aclosing(coming):
                    async for rows, left_out in coming:
                        if not rows:
                            if (now_s := self._clock.monotonic()) >= read_again_s:
                                self._console.cluster.topics_changed([name.topic])
                                read_again_s = now_s + FOLLOWED_S
                            await self._check_exists(clients, name, topic)
                            yield ": nothing new\n\n"
                            continue
                        shown = rows_of(rows, how, IN_A_LIST, compacts=False, gaps=False)
                        html = template.render(rows=shown, base=_base(name), asked=asked)
                        next_ = rows[-1].next_offset
                        yield event({"html": html, "count": len(rows), "left_out": left_out, "next": next_})
            except StrandlineError as error:
                is_gone = isinstance(error, UnknownTopicOrPartition)
                if is_gone and not isinstance(error, AnotherTopic):
                    await self._until_dated(name.topic)
                yield event({"ended": fragment(self._console, request, error), "gone": is_gone})

        return self._console.streams.respond(request, events())

    async def _check_exists(self, clients: Clients, name: TopicPartition, topic: TopicMetadata) -> None:
        """Asks only if the console no longer sees the topic. Raises UnknownTopicOrPartition."""
        seen = self._console.cluster.seen
        if seen.is_old or any(each.topic_id == topic.topic_id for each in seen.topics):
            return
        (found,) = (await clients.admin.metadata([topic.name])).topics
        check_topic(name, topic.topic_id, found.topic_id)

    async def _until_dated(self, topic: str) -> None:
        """Waits for the event that says when a topic was deleted, for DATED_S_MAX: a tail says it once."""
        rows, pulse = self._console.timeline.window.rows, self._console.timeline_pulse
        with suppress(TimeoutError):
            async with asyncio.timeout(DATED_S_MAX):
                while deleted_ms(rows, topic) is None and not pulse.closed:
                    await pulse.after(pulse.version, DATED_S_MAX)

    async def export(self, request: Request) -> Response:
        """Records as JSON lines."""
        name, given = _name(request), Form(request.query_params)
        part, _ = _part(name, given)
        clients = clients_of(self._console, request)
        topic, ends = await log_of(clients.admin, name, part.topic_id)
        at = await offset_asked(clients.admin, part, topic.topic_id)
        count = given.whole("count", 1, streaming.EXPORT_RECORDS_MAX, streaming.EXPORT_RECORDS_MAX)
        first = first_offset(part.where, at, count, ends)
        end = min(given.whole("until", 0, INT64_MAX, INT64_MAX), ends.high_watermark)
        begin = LogPosition(first, topic.topic_id)
        lines = streaming.export(self._readers, clients, self._clock, name, begin, end, count)
        headers = {"Content-Disposition": f'attachment; filename="{name}-{first}.jsonl"'}
        begun = await anext(lines, b"")  # a refusal is a page, not a file
        return Stream(_joined(begun, lines), media_type="application/x-ndjson", headers=headers)

    async def _record(self, request: Request) -> tuple[TopicPartition, TopicId, Fields]:
        """The record that a path names, with its partition and topic. Raises ResourceNotFound, …"""
        name, offset = _name(request), Form(request.path_params).whole("offset", 0, INT64_MAX)
        clients = clients_of(self._console, request)
        at = LogPosition(offset, _topic_id(Form(request.query_params)))
        return name, *await read_one(self._readers, clients, self._clock, name, at)

    async def _page(
        self,
        request: Request,
        template: str,
        name: TopicPartition,
        how: As,
        topic_id: TopicId,
        **values: Any,
    ) -> Response:
        """A page of one partition, which lets a reader choose how bytes are shown. `asked` is the query of
        links to its records, `of` the part of it that names the topic."""
        return await self._console.page(
            request,
            template,
            name=name,
            base=_base(name),
            asked=_asked(how, topic_id),
            of=urlencode(_of(topic_id)),
            how=how,
            hows=list(As),
            **values,
        )


async def _joined(begun: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield begun
        async for each in rest:
            yield each


def rows_of(
    rows: Sequence[Row], how: As, bounds: Bounds, *, compacts: bool, gaps: bool = True
) -> list[RecordRow | ProblemRow]:
    """Rows as a page shows them; with `gaps` it is said where offsets are missing."""
    made: list[RecordRow | ProblemRow] = []
    seen: list[tuple[int, int]] = []
    for row in rows:
        gap = gap_before(row.offset, seen, compacts=compacts) if gaps else ""
        if isinstance(row, Undecodable):
            made.append(ProblemRow(row.offset, row.message, gap))
        else:
            made.append(record_row(row, how, bounds, gap))
        seen.append((row.offset, row.next_offset))
    return made


def _name(request: Request) -> TopicPartition:
    given = Form(request.path_params)
    topic = given.needed("topic", chars_max=TOPIC_NAME_LENGTH_MAX)
    return TopicPartition(topic, given.whole("partition", 0, INT32_MAX))


def _base(name: TopicPartition) -> str:
    return f"/topics/{name.topic}/{name.partition}"


def _topic_id(given: Form) -> TopicId:
    """The topic that a link to an offset belongs to."""
    return TopicId(given.text("topic_id"))


def _of(topic_id: TopicId) -> dict[str, str]:
    """The field that `_topic_id` reads."""
    return {"topic_id": topic_id} if topic_id else {}


def _asked(how: As, topic_id: TopicId) -> str:
    return urlencode({"as": how, **_of(topic_id)})


def _part(name: TopicPartition, given: Form) -> tuple[Part, str]:
    """What is asked for, and the text of `at`. Raises InvalidRequest."""
    where = From(given.choice("from", list(From)))
    count = min(given.whole("count", 1, streaming.EXPORT_RECORDS_MAX, COUNT_USUAL), COUNT_MAX)
    at = 0
    text = given.text("at", chars_max=40)
    if where is From.OFFSET:
        at = given.whole("at", 0, INT64_MAX)
    elif where is From.TIME:
        at = given.time_ms("at")
    return Part(name, where, at, count, _topic_id(given)), text


def _progress(given: Form) -> Progress | None:
    """How far a search has come; None: it begins."""
    end = given.whole_or_none("end", 0, INT64_MAX)
    if end is None:
        return None
    start = given.whole("start", max(0, end - RECORDS_MAX), end)
    hits, window = given.whole("hits", 0, HITS_MAX), given.whole("window", 1, WINDOW_MAX, WINDOW_FIRST)
    return Progress(start, given.whole("at", start, end), end, hits, window)
