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
from strandline.security.audit.entry import Source, shortened

METADATA_NAME: Final = "strandline-asked-for-bin"

METADATA_BYTES_MAX: Final = 4_500
"""The headers of a call are bounded (`call_headers_bytes_max`), and have four bytes for three of these. Two
names of 1,000 letters each have room."""

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
    if source is None:
        return ()
    said = _dumped(source)
    if len(said) > METADATA_BYTES_MAX:  # names that long have the quotas of the default
        said = _dumped(shortened(source))
    return ((METADATA_NAME, said),)


def _dumped(source: Source) -> bytes:
    return json.dumps(astuple(source), ensure_ascii=False).encode()


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
