"""The pages of topics: the list, and one topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from strandline.config.limits import TOPIC_NAME_LENGTH_MAX
from strandline.console.core.forms import Form
from strandline.console.core.paging import page
from strandline.console.core.topics.config import config_rows
from strandline.console.core.topics.listing import Only, Sort, Wanted, listing, topic_row
from strandline.console.core.topics.partitions import partition_rows
from strandline.console.core.topics.rates import Described
from strandline.console.core.transactions import open_words
from strandline.console.feeds.leaders import Leaders
from strandline.console.feeds.transactions import TransactionsFeed
from strandline.console.web.context import Console
from strandline.ids import TopicPartition
from strandline.vocabulary.metadata import PartitionMetadata, TopicMetadata

PARTITIONS_ASKED_MAX: Final = 5_000
"""Partitions whose sizes one page asks for; those of further topics are not shown."""
PAGES_MAX: Final = 1_000_000
REPLICAS_USUAL: Final = 3

_ONLY_WORDS: Final = {
    Only.ALL: "all",
    Only.PROBLEMS: "with problems",
    Only.LEADERLESS: "without a leader",
    Only.BELOW_MIN_ISR: "below min.insync.replicas",
    Only.AT_MIN_ISR: "at min.insync.replicas",
    Only.UNDER_REPLICATED: "under-replicated",
}
_SORT_WORDS: Final = {Sort.NAME: "name", Sort.PARTITIONS: "partitions", Sort.PROBLEMS: "problems"}


def routes(console: Console) -> Sequence[BaseRoute]:
    """The pages below `/topics`."""
    leaders, transactions = Leaders(console.clock), TransactionsFeed(console.clock)
    rates = leaders.rates

    async def topics(request: Request) -> Response:
        wanted = _wanted(request)
        seen = await console.seen(request)
        alive = {broker.id for broker in seen.brokers}
        found = listing(seen.topics, alive, wanted, console.settings.page_rows_max)
        shown = [row.topic for row in found.page.items]
        described = (
            {} if seen.is_old else await leaders.describe(console.admins.admin(request), _names(shown))
        )
        return await console.page(
            request,
            "topics/list.html",
            title="Topics",
            seen=seen,
            wanted=wanted,
            onlys=_ONLY_WORDS,
            sorts=_SORT_WORDS,
            listing=found,
            sizes=_sizes(shown, described),
            rates={each.name: None if seen.is_old else rates.of_all(_names([each])) for each in shown},
            link=lambda page: _link(wanted, page),
            replicas_usual=min(max(len(alive), 1), REPLICAS_USUAL),
        )

    async def topic(request: Request) -> Response:
        admin = console.admins.admin(request)
        metadata = await admin.metadata([request.path_params["topic"]])
        (found,) = metadata.topics
        alive = {broker.id for broker in metadata.brokers}
        number = Form(request.query_params).whole("page", 1, PAGES_MAX, 1)
        part = page(found.partitions, number, console.settings.page_rows_max)
        described = await leaders.describe(admin, _names([found]) or _partitions(found, part.items))
        rows = partition_rows(found, part.items, alive, described)
        opened = await transactions.in_logs(admin, _partitions(found, part.items))
        row = topic_row(found, alive)
        return await console.page(
            request,
            "topics/topic.html",
            title=f"Topic {found.name}",
            topic=found,
            row=row,
            size=_sizes([found], described).get(found.name),
            rate=rates.of_all(_names([found])),
            page=part,
            rows=rows,
            opened={name.partition: open_words(log, console.clock.wall_ms()) for name, log in opened.items()},
            rates={each.partition: rates.of(TopicPartition(found.name, each.partition)) for each in rows},
            link=lambda page: f"/topics/{found.name}?page={page}",
            config=config_rows(found.config, row.replication_factor),
        )

    return [Route("/topics", topics), Route("/topics/{topic}", topic)]


def _wanted(request: Request) -> Wanted:
    given = Form(request.query_params)
    return Wanted(
        given.text("text", chars_max=TOPIC_NAME_LENGTH_MAX),
        Only(given.choice("only", list(Only))),
        given.flag("internal"),
        Sort(given.choice("sort", list(Sort))),
        given.whole("page", 1, PAGES_MAX, 1),
    )


def _link(wanted: Wanted, page: int) -> str:
    asked = {"text": wanted.text, "only": wanted.only, "sort": wanted.sort, "page": page}
    return f"/topics?{urlencode({**asked, **({'internal': 1} if wanted.internal else {})})}"


def _partitions(topic: TopicMetadata, partitions: Iterable[PartitionMetadata]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, each.partition) for each in partitions]


def _names(topics: Iterable[TopicMetadata]) -> list[TopicPartition]:
    """The partitions of the first topics, up to PARTITIONS_ASKED_MAX."""
    names: list[TopicPartition] = []
    for topic in topics:
        if len(names) + len(topic.partitions) > PARTITIONS_ASKED_MAX:
            break
        names += _partitions(topic, topic.partitions)
    return names


def _sizes(topics: Iterable[TopicMetadata], described: Described) -> dict[str, int]:
    """The bytes of the leaders' logs; a topic of which a leader did not answer has no size."""
    sizes = {}
    for topic in topics:
        answers = [described.get(TopicPartition(topic.name, each.partition)) for each in topic.partitions]
        known = [answer.size_bytes for answer in answers if answer is not None]
        if len(known) == len(answers):
            sizes[topic.name] = sum(known)
    return sizes
