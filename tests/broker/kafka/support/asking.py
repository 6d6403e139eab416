"""Requests at the handlers of a broker with one replica (`tests.broker.support.seat`)."""

from __future__ import annotations

from random import Random
from typing import Any, Final, cast

from strandline.adapters.telemetry.kafka_traffic import KafkaTraffic
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.handlers.fetching.answering import FetchAnswers
from strandline.broker.kafka.handlers.fetching.fetch import FetchApi
from strandline.broker.kafka.handlers.fetching.preferred import PreferredReplicas
from strandline.broker.kafka.handlers.fetching.sessions import FetchSessions
from strandline.broker.kafka.handlers.leader_hints import LeaderHints
from strandline.broker.kafka.wire.apis import ApiWire
from strandline.broker.kafka.wire.header import RequestHeader
from strandline.broker.log.handlers import Handlers
from strandline.broker.log.producer_ids import ProducerIds
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.transactions.rights import TransactionRights
from strandline.config.services.broker import BrokerSettings
from strandline.ids import BrokerId
from strandline.ports import Caller, Listener
from strandline.security.access import Access
from strandline.vocabulary.metadata import Endpoint
from tests.broker.support.access import OPEN
from tests.broker.support.replicas import CLOCK, settings
from tests.broker.support.seat import Seat

NO_HINTS: Final = LeaderHints(lambda name: None, dict, tuple)
"""Names no leaders."""
NO_FOLLOWERS: Final = PreferredReplicas(lambda name: (), dict, tuple, Endpoint(1, "h", 1))
"""Sends no client to one."""


LIVE: Final = (BrokerId(1), BrokerId(2))


def called(
    wire: ApiWire[Any, Any], version: int, listener: Listener = Listener.INTERNAL, host: str = "192.0.2.1"
) -> Call:
    caller = Caller(f"kafka:{host}:1", host, listener)
    return Call(RequestHeader(wire.key, version, 1, "t"), caller)


def log_handlers(seat: Seat, access: Access = OPEN) -> Handlers:
    view = ClusterView(seat.manager, seat.manager.settings, CLOCK)
    ids = ProducerIds(lambda: None, Random(0))
    return Handlers(seat.manager, view, settings(), CLOCK, lambda: True, ids, access)


def no_rights(seat: Seat) -> TransactionRights:
    """Of a broker without coordinators: no producer here has a transaction."""
    return TransactionRights(seat.manager, cast(Any, None))


def fetch_api(
    log: Handlers,
    hints: LeaderHints = NO_HINTS,
    own: BrokerSettings | None = None,
    preferred: PreferredReplicas = NO_FOLLOWERS,
) -> FetchApi:
    sessions = FetchSessions(log, Random(0), CLOCK, KafkaTraffic(CLOCK))
    made = FetchAnswers(hints, preferred)
    return FetchApi(log, made, sessions, own or settings(), lambda: LIVE, CLOCK)
