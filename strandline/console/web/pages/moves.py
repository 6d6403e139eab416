"""The page of moves: reassignments under way, the balance, and drained brokers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from strandline.client.admin.moves import ReassignmentProgress
from strandline.config.limits import TOPIC_NAME_LENGTH_MAX
from strandline.console.changes.replicas import ChosenMoves
from strandline.console.core.forms import Form
from strandline.console.core.paging import page
from strandline.console.core.seen import Seen
from strandline.console.web.context import Console
from strandline.console.web.pages.topics import PAGES_MAX
from strandline.errors import StrandlineError
from strandline.vocabulary.admin import BalanceDescription


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker with the partitions that it leads and the replicas that it is assigned."""

    broker: int
    leads: int
    replicas: int
    alive: bool
    drained: bool


def routes(console: Console) -> Sequence[BaseRoute]:
    """The page at `/moves`."""

    async def moves(request: Request) -> Response:
        admin = console.admins.admin(request)
        given = Form(request.query_params)
        topic = given.text("topic", chars_max=TOPIC_NAME_LENGTH_MAX)
        found: list[ReassignmentProgress] = []
        moves_problem = balance_problem = ""
        balance: BalanceDescription | None = None
        try:
            found = await ChosenMoves(topic, None).find(admin)
        except StrandlineError as error:
            moves_problem = error.message
        try:
            balance = await admin.describe_balance()
        except StrandlineError as error:
            balance_problem = error.message
        number = given.whole("page", 1, PAGES_MAX, 1)
        return await console.page(
            request,
            "topics/moves.html",
            title="Moves of replicas",
            topic=topic,
            page=page(found, number, console.settings.page_rows_max),
            moves_problem=moves_problem,
            balance=balance,
            balance_problem=balance_problem,
            brokers=broker_rows(await console.seen(request)),
            link=lambda page: f"/moves?{urlencode({'topic': topic, 'page': page})}",
        )

    return [Route("/moves", moves)]


def broker_rows(seen: Seen) -> list[BrokerRow]:
    """The brokers that are alive, have replicas, or are known to the controller."""
    partitions = [each for topic in seen.topics for each in topic.partitions]
    alive = {each.id for each in seen.brokers}
    drained = {each.endpoint.id for each in seen.described if each.drained}
    known = alive | {each.endpoint.id for each in seen.described}
    leads = dict.fromkeys(known, 0)
    replicas = dict.fromkeys(known, 0)
    for each in partitions:
        if each.leader in leads:
            leads[each.leader] += 1
        for broker in each.replicas:
            replicas[broker] = replicas.get(broker, 0) + 1
    return [
        BrokerRow(broker, leads.get(broker, 0), replicas[broker], broker in alive, broker in drained)
        for broker in sorted(replicas)
    ]
