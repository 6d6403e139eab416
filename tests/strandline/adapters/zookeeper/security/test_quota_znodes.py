"""Quotas as znodes: paths that any name fits into, and data of which nothing is guessed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.adapters.zookeeper.security.quota_znodes import (
    dump_limits,
    dump_quota_change,
    entity_child,
    load_entity,
    load_limits,
    load_quota_change,
)
from strandline.adapters.zookeeper.znodes import UnreadableZnode
from strandline.security.quotas.model import DEFAULT, Quota, QuotaEntity

NAMES = (
    st.none()
    | st.text(st.characters(exclude_categories=["C", "Z"]), max_size=20)
    | st.sampled_from([".", "..", "<default>", "user=x", "a,client-id=b", "a/b", "CN=a,O=b"])
)
ADDRESSES = st.just(DEFAULT) | st.ip_addresses().map(str)
ENTITIES = st.builds(
    lambda parts: QuotaEntity(*parts), st.tuples(NAMES, NAMES).filter(lambda parts: parts != (None, None))
) | ADDRESSES.map(lambda address: QuotaEntity(ip=address))
ALICE = QuotaEntity("alice", DEFAULT)


@given(ENTITIES)
def test_a_path_has_one_component_for_any_names(entity: QuotaEntity) -> None:
    """A client's name leads to no other znode, and none is taken for the default."""
    child = entity_child(entity)
    assert child.isascii() and child.isprintable() and "/" not in child and child not in (".", "..")
    assert load_entity(child) == entity


@pytest.mark.parametrize(
    "child",
    [
        "",
        "alice",
        "user=",
        "user=a%2",
        "user=%61",
        "user=a,user=b",
        "client-id=x,user=a",
        "ip=x",
        "ip=2001:db8::7",
        "ip=2001%3ADB8%3A%3A7",
        "user=a,ip=192.0.2.1",
        "user=%ff",
        "user=a b",
    ],
)
def test_another_spelling_is_no_second_znode_of_an_entity(child: str) -> None:
    with pytest.raises(UnreadableZnode):
        load_entity(child)


def test_limits_are_json_with_kafkas_names() -> None:
    limits = {Quota.REQUEST_PERCENTAGE: 12.5, Quota.PRODUCER_BYTE_RATE: 1048576.0}
    data = dump_limits(limits)
    assert json.loads(data) == {"producer_byte_rate": 1048576, "request_percentage": 12.5}
    assert load_limits(ALICE, data) == limits


@pytest.mark.parametrize(
    "data",
    [
        b"", b"null", b"[]", b"7", b"[" * 100_000, b"\xff\xfe", b'{"x": 1}', b'{"producer_byte_rate": "1"}',
        b'{"producer_byte_rate": true}', b'{"producer_byte_rate": 0}', b'{"producer_byte_rate": 1.5}',
        b'{"request_percentage": NaN}', b'{"request_percentage": 1e-322}',
        b'{"request_percentage": 1' + b"0" * 400 + b"}",
    ],
)  # fmt: skip
def test_garbage_is_no_quota(data: bytes) -> None:
    with pytest.raises(UnreadableZnode, match="user=alice,client-id=<default>"):
        load_limits(ALICE, data)


def test_an_address_has_no_limit_of_callers_and_they_have_none_of_it() -> None:
    address = QuotaEntity(ip="192.0.2.1")
    assert entity_child(address) == "ip=192.0.2.1" and entity_child(QuotaEntity(ip=DEFAULT)) == "ip=<default>"
    own = b'{"connection_creation_rate": 10}'
    assert load_limits(address, own) == {Quota.CONNECTION_CREATION_RATE: 10}
    for entity, data in ((ALICE, own), (address, b'{"producer_byte_rate": 1}')):
        with pytest.raises(UnreadableZnode):
            load_limits(entity, data)


def test_a_notice_names_entities_or_nothing_of_quotas() -> None:
    entities = (ALICE, QuotaEntity(None, "a,b"))
    assert load_quota_change("p", dump_quota_change(entities)) == entities
    assert load_quota_change("p", b'{"users": ["alice"]}') == ()
    with pytest.raises(UnreadableZnode):
        load_quota_change("p", b'{"quotas": ["alice"]}')
