"""Stream applications: the public names of `strandline.streams` (docs/use/streams.md).

They need the extra `streams`, for the store of each task: `pip install 'strandline[streams]'`. The names are
imported on first use (PEP 562), so that a module of this package does not load RocksDB with it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strandline.streams.core.task import TaskId as TaskId
    from strandline.streams.process import run as run
    from strandline.streams.runtime.queries import NotHere as NotHere
    from strandline.streams.runtime.queries import Owner as Owner
    from strandline.streams.runtime.queries import StoreQuery as StoreQuery
    from strandline.streams.runtime.tasks.active import ProcessingFailed as ProcessingFailed
    from strandline.streams.storage.errors import StoreClosed as StoreClosed
    from strandline.streams.streams import Streams as Streams
    from strandline.streams.streams import TaskStatus as TaskStatus
    from strandline.streams.topology.errors import RecordRefused as RecordRefused
    from strandline.streams.topology.errors import TopologyError as TopologyError
    from strandline.streams.topology.records import Record as Record
    from strandline.streams.topology.serdes import BYTES as BYTES
    from strandline.streams.topology.serdes import INTEGER as INTEGER
    from strandline.streams.topology.serdes import JSON as JSON
    from strandline.streams.topology.serdes import STRING as STRING
    from strandline.streams.topology.serdes import Serde as Serde
    from strandline.streams.topology.stores import KeyValueStore as KeyValueStore
    from strandline.streams.topology.stores import Store as Store
    from strandline.streams.topology.stream import Stream as Stream
    from strandline.streams.topology.topology import Topology as Topology

_HOMES = {
    "BYTES": "topology.serdes",
    "INTEGER": "topology.serdes",
    "JSON": "topology.serdes",
    "KeyValueStore": "topology.stores",
    "NotHere": "runtime.queries",
    "Owner": "runtime.queries",
    "ProcessingFailed": "runtime.tasks.active",
    "Record": "topology.records",
    "RecordRefused": "topology.errors",
    "STRING": "topology.serdes",
    "Serde": "topology.serdes",
    "Store": "topology.stores",
    "StoreClosed": "storage.errors",
    "StoreQuery": "runtime.queries",
    "Stream": "topology.stream",
    "Streams": "streams",
    "TaskId": "core.task",
    "TaskStatus": "streams",
    "Topology": "topology.topology",
    "TopologyError": "topology.errors",
    "run": "process",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605  # made from the table


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"strandline.streams.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'strandline.streams' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*_HOMES, *(name for name in globals() if name.startswith("__"))})
