"""Any content of a znode is decoded within its bounds or is an UnreadableZnode (CORRECTNESS X5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.adapters.zookeeper import znodes
from strandline.adapters.zookeeper.layout import (
    balance_znodes,
    drain_znodes,
    isr_znodes,
    queue_znodes,
    reassignment_znodes,
)
from strandline.vocabulary.state_changes import StateChangeEvent, load_event, parse_event

LOADERS: dict[str, Callable[[bytes], object]] = {
    "registration": lambda data: znodes.load_registration(1, data, 7),
    "topic": lambda data: znodes.load_topic("t", data),
    "replicas": lambda data: znodes.load_replicas("t", 0, data),
    "isr": lambda data: isr_znodes.load_isr("t", 0, data),
    "deletion": lambda data: znodes.load_deletion("t", data),
    "controller": znodes.load_controller,
    "reassignment": lambda data: reassignment_znodes.load_reassignment("t", 0, data),
    "balance": balance_znodes.load_balance,
    "drain": lambda data: drain_znodes.load_drain(1, data),
    "cluster id": znodes.load_cluster_id,
    "state changes": queue_znodes.load_state_changes,
    "notices": queue_znodes.load_notices,
}

SOUND: dict[str, Any] = {
    "host": "h", "port": 1, "rack": "r", "external": ["h", 2], "shutting_down": False,
    "id": "i", "partitions": 1, "config": {"a": "b"}, "growing": 0,
    "leader": 1, "epoch": 2, "isr": [[1, 5]], "trail": [],
    "replicas": [1], "original": [1], "throttle": 0, "reverting": False, "request": "r", "at": 1,
    "replaced": [], "broker_epoch": 3, "state": "running", "count": 1, "done": 0, "skipped": 0,
    "topics": {"t": {"id": "i", "moves": [[0, [1], [2], 5]]}},
}  # fmt: skip
"""Fields enough for any of the objects."""

NASTY: list[Any] = [
    None, True, -2, 2**31, 2**63, 10**400, 1.5, float("nan"), float("inf"), "", "1", "x" * 100_000,
    [], [[]], {}, {"a": {}}, [1, 2], [[1, 2, 3]], [[[1], 2]], [None], ["a", "b"],
]  # fmt: skip

BYTES = [
    b"", b"\xff\xfe", b"{", b"null", b"[", b"nan", b"[" * 100_000, b'{"a":' * 100_000,
    b"[" * 900 + b"]" * 900, b"9" * 5_000, b'"' + b"\\ud800" + b'"',
]  # fmt: skip


def decoded(load: Callable[[bytes], object], data: bytes) -> object:
    """The decoded content, or None. Any error but UnreadableZnode fails the test."""
    try:
        return load(data)
    except znodes.UnreadableZnode as error:
        assert len(error.message) < 2_000
        return None


@pytest.mark.parametrize("data", BYTES, ids=range(len(BYTES)))
@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_bytes_that_are_no_record_raise_nothing_but_unreadable_znode(
    load: Callable[[bytes], object], data: bytes
) -> None:
    """Nesting without end, numbers of a thousand digits and bytes that are no text among them."""
    decoded(load, data)


@pytest.mark.parametrize("field", SOUND)
@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_a_field_of_another_type_or_out_of_bounds_raises_nothing_but_unreadable_znode(
    load: Callable[[bytes], object], field: str
) -> None:
    for value in NASTY:
        found = decoded(load, json.dumps({**SOUND, field: value}).encode())
        assert found is None or str(10**400) not in repr(found)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(list(SOUND)), inner),
    max_leaves=12,
)


@given(JSON)
def test_no_json_is_more_than_unreadable(value: Any) -> None:
    data = json.dumps(value).encode()
    for load in LOADERS.values():
        decoded(load, data)


EVENT: dict[str, Any] = {
    "id": "i", "command": "start-replica", "state": "requested", "topic": "t", "topic_id": "u",
    "partition": 0, "broker": 1, "epoch": 2, "at": 3, "requester": 1, "reason": "r", "isr": [1],
    "left": [2], "joined": [3], "replicas": [1], "unclean": False, "first": 1, "end": 2, "lost": 1,
}  # fmt: skip


@pytest.mark.parametrize("field", EVENT)
def test_an_event_out_of_bounds_is_no_event(field: str) -> None:
    """Controllers read records of `__state_changes` back, and send them on to clients."""
    assert load_event(EVENT).id == "i"
    for value in NASTY:
        try:
            found: StateChangeEvent | None = load_event({**EVENT, field: value})
        except ValueError:
            found = None
        assert found is None or str(10**400) not in repr(found)


@pytest.mark.parametrize("data", [None, *BYTES], ids=range(len(BYTES) + 1))
def test_bytes_that_are_no_event_are_no_event(data: bytes | None) -> None:
    with pytest.raises(ValueError, match="a state change"):
        parse_event(data)
