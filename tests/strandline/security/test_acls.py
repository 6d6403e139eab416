"""What an ACL may say, and which ACLs a filter finds."""

from __future__ import annotations

import pytest

from strandline.errors import InvalidRequest
from strandline.security.acls import (
    RESOURCE_NAME_CHARS_MAX,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.principal import Principal

ALICE = Principal("alice")


def binding(
    name: str = "tides",
    pattern_type: PatternType = PatternType.LITERAL,
    *,
    of: ResourceType = ResourceType.TOPIC,
    principal: Principal = ALICE,
    host: str = "*",
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
) -> AclBinding:
    return AclBinding(ResourcePattern(of, name, pattern_type), principal, host, operation, permission)


def test_values_of_filters_are_no_part_of_an_acl() -> None:
    with pytest.raises(InvalidRequest, match="filters"):
        binding(of=ResourceType.ANY)
    for pattern_type in (PatternType.ANY, PatternType.MATCH):
        with pytest.raises(InvalidRequest, match="filters"):
            binding(pattern_type=pattern_type)
    with pytest.raises(InvalidRequest, match="filters"):
        binding(operation=Operation.ANY)
    with pytest.raises(InvalidRequest, match="filters"):
        binding(permission=Permission.ANY)


@pytest.mark.parametrize("name", ["", "a" * (RESOURCE_NAME_CHARS_MAX + 1), "\ud800"])
def test_a_name_that_no_resource_has_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="name"):
        binding(name)


def test_the_cluster_has_one_name() -> None:
    assert binding("kafka-cluster", of=ResourceType.CLUSTER)
    with pytest.raises(InvalidRequest, match="kafka-cluster"):
        binding("other", of=ResourceType.CLUSTER)


@pytest.mark.parametrize("host", ["", "example.net", "10.0.0.0/8", "10.0.0.256", "**"])
def test_a_host_that_no_caller_has_is_refused(host: str) -> None:
    """A DENY with it would deny nothing."""
    with pytest.raises(InvalidRequest, match="host"):
        binding(host=host)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:DB8::1", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
def test_an_address_has_one_spelling(one: str, other: str) -> None:
    assert binding(host=one) == binding(host=other)
    assert AclFilter(host=one).matches(binding(host=other))


def test_a_filter_without_values_finds_everything() -> None:
    assert AclFilter().matches(binding("*", of=ResourceType.GROUP, permission=Permission.DENY))


@pytest.mark.parametrize("given", [{"name": ""}, {"host": ""}])
def test_an_empty_part_of_a_filter_is_refused(given: dict[str, str]) -> None:
    """Over gRPC it would find everything."""
    with pytest.raises(InvalidRequest, match="of the filter is empty: give one"):
        AclFilter(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (PatternType.LITERAL, {"literal tides"}),
        (PatternType.PREFIXED, {"prefixed tides"}),
        (PatternType.ANY, {"literal tides", "prefixed tides"}),
        (PatternType.MATCH, {"literal tides", "literal *", "prefixed tides", "prefixed ti"}),
    ],
)
def test_a_filter_compares_its_name_as_its_pattern_type_says(wanted: PatternType, found: set[str]) -> None:
    """MATCH alone takes the name for that of a resource."""
    there = [
        binding(name, kind)
        for kind in (PatternType.LITERAL, PatternType.PREFIXED)
        for name in ("tides", "*", "ti", "tides2")
    ]
    chosen = [each for each in there if AclFilter(ResourceType.TOPIC, "tides", wanted).matches(each)]
    assert {f"{each.pattern.pattern_type.name.lower()} {each.pattern.name}" for each in chosen} == found


@pytest.mark.parametrize(
    "other",
    [
        AclFilter(resource_type=ResourceType.GROUP),
        AclFilter(principal=Principal("*")),
        AclFilter(host="192.0.2.1"),
        AclFilter(operation=Operation.DESCRIBE),
        AclFilter(permission=Permission.DENY),
    ],
    ids=str,
)
def test_each_value_of_a_filter_must_be_equal(other: AclFilter) -> None:
    """Nothing is implied: a filter finds what is stored, and not what it allows."""
    assert not other.matches(binding())
