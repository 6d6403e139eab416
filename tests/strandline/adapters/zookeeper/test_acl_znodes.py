"""ACLs as znodes: paths that any name fits into, and data of which nothing is guessed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.adapters.zookeeper.security.acl_znodes import (
    ACL_FOLDERS,
    dump_bindings,
    dump_change,
    load_bindings,
    load_change,
    load_pattern,
    pattern_path,
)
from strandline.adapters.zookeeper.znodes import UnreadableZnode
from strandline.security.acls import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.principal import Principal

PATTERNS = st.builds(
    ResourcePattern,
    st.sampled_from(
        [ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.USER]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
    | st.sampled_from([".", "..", "*", "a/b"]),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
TIDES = ResourcePattern(ResourceType.TOPIC, "tides", PatternType.PREFIXED)
BINDING = AclBinding(TIDES, Principal("alice"), "*", Operation.READ, Permission.ALLOW)
GARBAGE = [
    b"", b"null", b"{}", b"7", b"[7]", b'["x"]', b"[" * 100_000, b"\xff\xfe", b'[{"principal": "User:a"}]',
]  # fmt: skip


@given(PATTERNS)
def test_a_path_has_one_component_for_any_name(pattern: ResourcePattern) -> None:
    """A client's name leads to no other znode."""
    folder = ACL_FOLDERS[pattern.resource_type, pattern.pattern_type]
    path = pattern_path(pattern)
    assert path.startswith(f"{folder}/")
    child = path.removeprefix(f"{folder}/")
    assert child.isascii() and child.isprintable() and "/" not in child and child not in (".", "..")
    assert load_pattern(pattern.resource_type, pattern.pattern_type, child) == pattern


@pytest.mark.parametrize("child", ["", "a%2", "%74ides", "%ff", "x" * 250, "a b"])
def test_another_spelling_is_no_second_znode_of_a_pattern(child: str) -> None:
    with pytest.raises(UnreadableZnode):
        load_pattern(ResourceType.TOPIC, PatternType.LITERAL, child)


def test_bindings_are_json_that_people_can_read() -> None:
    other = AclBinding(TIDES, Principal("CN=b,O=x"), "192.0.2.1", Operation.ALL, Permission.DENY)
    data = dump_bindings([BINDING, other])
    assert json.loads(data)[1] == {
        "principal": "User:alice", "host": "*", "operation": "READ", "permission": "ALLOW",
    }  # fmt: skip
    assert set(load_bindings(TIDES, data)) == {BINDING, other}


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_reported_as_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableZnode):
        load_bindings(TIDES, data)
    if data not in (b"{}",):
        with pytest.raises(UnreadableZnode):
            load_change("/security/changes/change-1", data)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("principal", "alice"),
        ("host", "example.net"),
        ("operation", "ANY"),
        ("operation", "FLY"),
        ("permission", 3),
    ],
)
def test_a_value_that_no_request_may_have_is_unreadable(field: str, value: object) -> None:
    fields = json.loads(dump_bindings([BINDING]))[0] | {field: value}
    with pytest.raises(UnreadableZnode):
        load_bindings(TIDES, json.dumps([fields]).encode())


def test_a_notice_names_patterns_and_a_notice_of_another_kind_names_none() -> None:
    slashed = ResourcePattern(ResourceType.GROUP, "a/b")
    data = dump_change([TIDES, slashed])
    assert json.loads(data) == {"acl": ["prefixed/TOPIC/tides", "literal/GROUP/a%2Fb"]}
    assert load_change("", data) == (TIDES, slashed)
    assert load_change("", b'{"user": "alice"}') == ()
    for wrong in ("TOPIC/tides", "literal/FISH/x", "odd/TOPIC/x", "literal/TOPIC/a/b"):
        with pytest.raises(UnreadableZnode):
            load_change("", json.dumps({"acl": [wrong]}).encode())
