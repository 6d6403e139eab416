"""Stream applications: what `streams/` has for its users (docs/streams.md).

It needs the extra `streams`, for the store of each task: `pip install 'strandline[streams]'`.
"""

from streams.core.task import TaskId
from streams.run import run
from streams.runtime.active_task import ProcessingFailed
from streams.runtime.queries import NotHere, Owner, StoreQuery
from streams.storage.errors import StoreClosed
from streams.streams import Streams, TaskStatus
from streams.topology.errors import RecordRefused, TopologyError
from streams.topology.records import Record
from streams.topology.serdes import BYTES, INTEGER, JSON, STRING, Serde
from streams.topology.stores import KeyValueStore, Store
from streams.topology.stream import Stream
from streams.topology.topology import Topology

__all__ = [
    "BYTES",
    "INTEGER",
    "JSON",
    "STRING",
    "KeyValueStore",
    "NotHere",
    "Owner",
    "ProcessingFailed",
    "Record",
    "RecordRefused",
    "Serde",
    "Store",
    "StoreClosed",
    "StoreQuery",
    "Stream",
    "Streams",
    "TaskId",
    "TaskStatus",
    "Topology",
    "TopologyError",
    "run",
]
