"""How a broker tells the controller for which caller it asks, in the metadata of the call.

Kafka clients make their changes through a broker. The controller believes it of calls that show the key of
the cluster's members, and of no others: a client may send it, and stays who it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import astuple
from types import NoneType
from typing import Final

from strandline.adapters.call_metadata import Metadata, ShownMetadata, shown
from strandline.security.audit.entry import Source

METADATA_NAME: Final = "strandline-asked-for-bin"

_ASKED_FOR: Final[ContextVar[Source | None]] = ContextVar("asked_for", default=None)


@contextmanager
def asking_for(source: Source | None) -> Iterator[None]:
    """Calls with one answer that begin within it are made for this caller; None: for this process itself."""
    token = _ASKED_FOR.set(source)
    try:
        yield
    finally:
        _ASKED_FOR.reset(token)


def asked_for() -> Source | None:
    """For whom a call is made now; None: for this process itself."""
    return _ASKED_FOR.get()


def asked_for_metadata() -> Metadata:
    source = asked_for()
    return () if source is None else ((METADATA_NAME, json.dumps(astuple(source)).encode()),)


def claimed(metadata: ShownMetadata) -> Source | None:
    """The caller for whom a call with this metadata is made, as it says; None: it says nothing that can be
    read."""
    said = shown(metadata, METADATA_NAME)
    if said is None:
        return None
    try:
        principal, mechanism, address, connection, listener, call, request_id, client_id = json.loads(said)
    except (ValueError, TypeError, RecursionError):
        return None
    texts = (principal, mechanism, address, connection, listener, call, client_id)
    if not all(type(each) is str for each in texts) or type(request_id) not in (int, NoneType):
        return None
    return Source(principal, mechanism, address, connection, listener, call, request_id, client_id)
