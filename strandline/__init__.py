"""strandline: a replicated commit log.

The public names are imported on first use (PEP 562), so that a client does not load the local
cluster and the command line does not load everything. The error classes are in `strandline.errors`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strandline.client.admin.admin import Admin as Admin
    from strandline.client.reading.records import ConsumerRecord as ConsumerRecord
    from strandline.client.reading.records import FetchedBatch as FetchedBatch
    from strandline.consumer.consumer import Consumer as Consumer
    from strandline.consumer.group.listener import RebalanceListener as RebalanceListener
    from strandline.errors import Outcome as Outcome
    from strandline.errors import StrandlineError as StrandlineError
    from strandline.ids import TopicPartition as TopicPartition
    from strandline.local.cluster import LocalCluster as LocalCluster
    from strandline.producer.producer import Producer as Producer
    from strandline.producer.tickets import BatchMetadata as BatchMetadata
    from strandline.producer.tickets import BulkMetadata as BulkMetadata
    from strandline.producer.tickets import BulkSendFailed as BulkSendFailed
    from strandline.producer.tickets import RecordMetadata as RecordMetadata
    from strandline.producer.transactions import Transaction as Transaction
    from strandline.security.login.oauthbearer import OauthToken as OauthToken
    from strandline.vocabulary.admin import NewTopic as NewTopic
    from strandline.vocabulary.groups import CommittedOffset as CommittedOffset
    from strandline.vocabulary.groups import GroupMetadata as GroupMetadata
    from strandline.vocabulary.log_position import LogPosition as LogPosition

_HOMES = {
    "Admin": "strandline.client.admin.admin",
    "BatchMetadata": "strandline.producer.tickets",
    "BulkMetadata": "strandline.producer.tickets",
    "BulkSendFailed": "strandline.producer.tickets",
    "CommittedOffset": "strandline.vocabulary.groups",
    "Consumer": "strandline.consumer.consumer",
    "ConsumerRecord": "strandline.client.reading.records",
    "FetchedBatch": "strandline.client.reading.records",
    "GroupMetadata": "strandline.vocabulary.groups",
    "LocalCluster": "strandline.local.cluster",
    "LogPosition": "strandline.vocabulary.log_position",
    "NewTopic": "strandline.vocabulary.admin",
    "OauthToken": "strandline.security.login.oauthbearer",
    "Outcome": "strandline.errors",
    "Producer": "strandline.producer.producer",
    "RebalanceListener": "strandline.consumer.group.listener",
    "RecordMetadata": "strandline.producer.tickets",
    "StrandlineError": "strandline.errors",
    "TopicPartition": "strandline.ids",
    "Transaction": "strandline.producer.transactions",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605  # made from the table


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name == "errors":
        return import_module("strandline.errors")
    raise AttributeError(f"module 'strandline' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({"errors", *_HOMES, *(name for name in globals() if name.startswith("__"))})
