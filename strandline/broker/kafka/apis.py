"""The APIs that are served, each with its handler."""

from __future__ import annotations

from functools import partial
from typing import Any

from strandline.adapters.logins import Logins
from strandline.adapters.telemetry.kafka_traffic import KafkaTraffic
from strandline.broker.groups.handlers import GroupHandlers
from strandline.broker.kafka.answers import Answers
from strandline.broker.kafka.call import Api, answered
from strandline.broker.kafka.group_apis import group_apis
from strandline.broker.kafka.handlers.acls import AclsApi
from strandline.broker.kafka.handlers.cluster import ClusterApi
from strandline.broker.kafka.handlers.configs import ConfigsApi
from strandline.broker.kafka.handlers.controller import ControllerFor, ControllerRequests
from strandline.broker.kafka.handlers.describing.resources import ResourcesApi
from strandline.broker.kafka.handlers.describing.topic_partitions import TopicPartitionsApi
from strandline.broker.kafka.handlers.fetching.answering import FetchAnswers
from strandline.broker.kafka.handlers.fetching.fetch import FetchApi
from strandline.broker.kafka.handlers.fetching.preferred import PreferredReplicas
from strandline.broker.kafka.handlers.fetching.sessions import FetchSessions
from strandline.broker.kafka.handlers.leader_hints import LeaderHints
from strandline.broker.kafka.handlers.logins.sasl import SaslApi
from strandline.broker.kafka.handlers.logins.users import UsersApi
from strandline.broker.kafka.handlers.new_topics import Leaders, TopicDefaults
from strandline.broker.kafka.handlers.offsets import OffsetsApi
from strandline.broker.kafka.handlers.on_demand import TopicsOnDemand
from strandline.broker.kafka.handlers.placement import PlacementApi
from strandline.broker.kafka.handlers.producing.produce import ProduceApi
from strandline.broker.kafka.handlers.quotas.client_quotas import QuotasApi
from strandline.broker.kafka.handlers.replicas import ReplicasApi
from strandline.broker.kafka.handlers.topics import TopicsApi
from strandline.broker.kafka.handlers.transactions.markers import MarkersApi
from strandline.broker.kafka.handlers.transactions.producers import TransactionProducersApi
from strandline.broker.kafka.handlers.transactions.tools import TransactionToolsApi
from strandline.broker.kafka.router import Router
from strandline.broker.kafka.routing.introduction import Place
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.coordinator import GROUP, TRANSACTION
from strandline.broker.log.handlers import Handlers
from strandline.broker.metadata.cluster_view import ClusterView
from strandline.broker.replicas.manager import ReplicaManager
from strandline.broker.transactions.rights import TransactionRights
from strandline.broker.transactions.transactions import Transactions
from strandline.client.controller_link import ControllerLink
from strandline.config.services.broker import BrokerSettings
from strandline.ports import Clock
from strandline.security.access import Access
from strandline.security.quotas.model import Quota
from strandline.vocabulary.metadata import Endpoint


def kafka_router(
    log: Handlers,
    groups: GroupHandlers,
    transactions: Transactions,
    manager: ReplicaManager,
    view: ClusterView,
    controller: ControllerLink,
    settings: BrokerSettings,
    own: Endpoint,
    logins: Logins,
    traffic: KafkaTraffic,
) -> Router:
    """Every API, those of logins if there is a mechanism. The router itself answers ApiVersions."""
    access = log.access
    hints = LeaderHints(log.leader_hint, lambda: manager.live, lambda: manager.peers.suspected)
    lists = OffsetsApi(log)
    clock = manager.clock
    requests, leaders = partial(ControllerRequests, controller), Leaders(log.described, view.is_led, clock)
    defaults = TopicDefaults(settings, lambda: manager.live)
    topics = TopicsApi(requests, view.outlines, leaders, defaults, access, clock)
    configs = ConfigsApi(requests, view.outlines, settings, own, access, clock)
    on_demand = TopicsOnDemand(requests, defaults, access, clock, settings, leaders)
    producers = TransactionProducersApi(transactions.handlers, access)
    cluster = ClusterApi(
        log.metadata,
        log.new_identity,
        producers.init,
        {GROUP: groups.find_coordinators, TRANSACTION: transactions.handlers.find_coordinators},
        on_demand.create,
        lambda: manager.live,
        lambda: manager.peers.suspected,
        own,
        requests,
        access,
        clock,
    )
    replicas = ReplicasApi(log, manager)
    large = Answers(clock)
    return Router(
        (
            produce_api(log, transactions.rights, hints, clock),
            fetch_api(log, hints, manager, settings, own, traffic),
            Api(apis.LIST_OFFSETS, answered(lists.list_offsets)),
            Api(apis.METADATA, answered(cluster.metadata)),
            Api(apis.FIND_COORDINATOR, answered(cluster.find_coordinator)),
            Api(apis.INIT_PRODUCER_ID, answered(cluster.new_producer_id)),
            Api(apis.OFFSET_FOR_LEADER_EPOCH, answered(lists.epoch_ends)),
            Api(apis.CREATE_TOPICS, answered(topics.create)),
            Api(apis.DELETE_TOPICS, answered(topics.delete)),
            Api(apis.CREATE_PARTITIONS, answered(topics.grow)),
            Api(apis.DESCRIBE_CONFIGS, large.bounded(configs.describe)),
            Api(apis.ALTER_CONFIGS, answered(configs.alter)),
            Api(apis.INCREMENTAL_ALTER_CONFIGS, answered(configs.alter_incrementally)),
            *acl_apis(requests, access, clock),
            *quota_apis(requests, access, clock),
            Api(apis.DELETE_RECORDS, answered(replicas.delete_records)),
            Api(apis.DESCRIBE_LOG_DIRS, answered(replicas.log_dirs)),
            *user_apis(requests, access, clock),
            *placement_apis(requests, access, clock),
            Api(apis.DESCRIBE_CLUSTER, answered(cluster.describe_cluster)),
            Api(apis.DESCRIBE_PRODUCERS, large.bounded(replicas.producers)),
            *describing_apis(log, manager, cluster, requests, large),
            *group_apis(groups, settings, access, clock),
            *transaction_apis(transactions, producers, large, clock),
            *(sasl_apis(logins, settings, clock) if logins.mechanisms else ()),
        ),
        lambda: Place(view.cluster_id, own.id) if view.cluster_id else None,
    )


def describing_apis(
    log: Handlers, manager: ReplicaManager, cluster: ClusterApi, requests: ControllerFor, large: Answers
) -> tuple[Api[Any, Any], ...]:
    """The APIs by which tools look at the cluster, some of it at a time."""
    partitions = TopicPartitionsApi(cluster.metadata, log.partition_counts, log.access)
    resources = ResourcesApi(log.partition_counts, lambda: manager.live, requests, log.access, manager.clock)
    return (
        Api(apis.DESCRIBE_TOPIC_PARTITIONS, answered(partitions.describe)),
        Api(apis.LIST_CONFIG_RESOURCES, large.bounded(resources.list)),
    )


def transaction_apis(
    transactions: Transactions, producers: TransactionProducersApi, large: Answers, clock: Clock
) -> tuple[Api[Any, Any], ...]:
    """The APIs of transactions. The end of one is carried out, also if its producer hangs up."""
    tools = TransactionToolsApi(transactions.handlers, clock)
    return (
        Api(apis.ADD_PARTITIONS_TO_TXN, answered(producers.add_partitions), changes=True),
        Api(apis.ADD_OFFSETS_TO_TXN, answered(producers.add_offsets), changes=True),
        Api(apis.END_TXN, answered(producers.end), changes=True),
        Api(apis.WRITE_TXN_MARKERS, answered(MarkersApi(transactions.logs).write), changes=True),
        Api(apis.LIST_TRANSACTIONS, large.bounded(tools.list)),
        Api(apis.DESCRIBE_TRANSACTIONS, large.bounded(tools.describe)),
    )


def fetch_api(
    log: Handlers,
    hints: LeaderHints,
    manager: ReplicaManager,
    settings: BrokerSettings,
    own: Endpoint,
    traffic: KafkaTraffic,
) -> Api[Any, Any]:
    """Fetch, with its sessions."""
    near = PreferredReplicas(log.in_sync, lambda: manager.live, lambda: manager.peers.suspected, own)
    sessions = FetchSessions(log, manager.host.random, manager.clock, traffic)
    made = FetchAnswers(hints, near)
    fetches = FetchApi(log, made, sessions, settings, lambda: manager.live, manager.clock)
    return Api(apis.FETCH, fetches.handle, wait=fetches.wait)


def produce_api(log: Handlers, rights: TransactionRights, hints: LeaderHints, clock: Clock) -> Api[Any, Any]:
    """Produce, which begins once the caller has paid for what it wrote before."""
    produces = ProduceApi(log, rights, hints, clock)
    paid_before = (Quota.PRODUCER_BYTE_RATE,)
    return Api(apis.PRODUCE, produces.handle, produces.begin, paid_before=paid_before, changes=True)


def placement_apis(requests: ControllerFor, access: Access, clock: Clock) -> tuple[Api[Any, Any], ...]:
    """The APIs about leaders, replicas and brokers."""
    placement = PlacementApi(requests, access, clock)
    return (
        Api(apis.ELECT_LEADERS, answered(placement.elect)),
        Api(apis.ALTER_PARTITION_REASSIGNMENTS, answered(placement.reassign)),
        Api(apis.LIST_PARTITION_REASSIGNMENTS, answered(placement.reassignments)),
        Api(apis.UNREGISTER_BROKER, answered(placement.unregister)),
    )


def acl_apis(requests: ControllerFor, access: Access, clock: Clock) -> tuple[Api[Any, Any], ...]:
    """The APIs about ACLs."""
    acls = AclsApi(requests, access, clock)
    return (
        Api(apis.DESCRIBE_ACLS, answered(acls.describe)),
        Api(apis.CREATE_ACLS, answered(acls.create)),
        Api(apis.DELETE_ACLS, answered(acls.delete)),
    )


def user_apis(requests: ControllerFor, access: Access, clock: Clock) -> tuple[Api[Any, Any], ...]:
    """The APIs about users' credentials."""
    users = UsersApi(requests, access, clock)
    return (
        Api(apis.DESCRIBE_USERS, answered(users.describe)),
        Api(apis.ALTER_USERS, answered(users.alter)),
    )


def quota_apis(requests: ControllerFor, access: Access, clock: Clock) -> tuple[Api[Any, Any], ...]:
    """The APIs about quotas."""
    quotas = QuotasApi(requests, access, clock)
    return (
        Api(apis.DESCRIBE_CLIENT_QUOTAS, answered(quotas.describe)),
        Api(apis.ALTER_CLIENT_QUOTAS, answered(quotas.alter)),
    )


def sasl_apis(logins: Logins, settings: BrokerSettings, clock: Clock) -> tuple[Api[Any, Any], ...]:
    """The APIs of logins."""
    sasl = SaslApi(logins, clock, lifetime_ms=settings.connections_max_reauth_ms)
    return (
        Api(apis.SASL_HANDSHAKE, answered(sasl.handshake)),
        Api(apis.SASL_AUTHENTICATE, answered(sasl.authenticate)),
    )
