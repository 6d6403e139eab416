"""strandline: a replicated commit log.

The public names are found when they are asked for (PEP 562), so that a client does not load the local
cluster, nor the command line everything. The classes of errors are in `strandline.errors`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from consumer.consumer import Consumer as Consumer
    from consumer.group.group import GroupMetadata as GroupMetadata
    from consumer.group.listener import RebalanceListener as RebalanceListener
    from consumer.records import ConsumerRecord as ConsumerRecord
    from consumer.records import FetchedBatch as FetchedBatch
    from producer.producer import Producer as Producer
    from producer.tickets import BatchMetadata as BatchMetadata
    from producer.tickets import BulkMetadata as BulkMetadata
    from producer.tickets import BulkSendFailed as BulkSendFailed
    from producer.tickets import RecordMetadata as RecordMetadata
    from strandline.client.admin import Admin as Admin
    from strandline.client.messages import NewTopic as NewTopic
    from strandline.errors import Outcome as Outcome
    from strandline.errors import StrandlineError as StrandlineError
    from strandline.groups import CommittedOffset as CommittedOffset
    from strandline.ids import TopicPartition as TopicPartition
    from strandline.local.cluster import LocalCluster as LocalCluster

_HOMES = {
    "Admin": "strandline.client.admin",
    "BatchMetadata": "producer.tickets",
    "BulkMetadata": "producer.tickets",
    "BulkSendFailed": "producer.tickets",
    "CommittedOffset": "strandline.groups",
    "Consumer": "consumer.consumer",
    "ConsumerRecord": "consumer.records",
    "FetchedBatch": "consumer.records",
    "GroupMetadata": "consumer.group.group",
    "LocalCluster": "strandline.local.cluster",
    "NewTopic": "strandline.client.messages",
    "Outcome": "strandline.errors",
    "Producer": "producer.producer",
    "RebalanceListener": "consumer.group.listener",
    "RecordMetadata": "producer.tickets",
    "StrandlineError": "strandline.errors",
    "TopicPartition": "strandline.ids",
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
