"""What the options of `strandline acl` mean."""

from __future__ import annotations

import click
import pytest

from strandline.cli.acl.chosen import Grants, Resources, bindings, exact, filters
from strandline.security.acls import Operation, PatternType, Permission, ResourceType
from strandline.security.principal import Principal

ALICE, EVE = Principal("alice"), Principal("eve")
TIDES = Resources(topics=("tides",))
LITERAL = PatternType.LITERAL


def meant(resources: Resources, grants: Grants, kind: PatternType = LITERAL) -> list[str]:
    return [str(each) for each in bindings(resources, kind, grants)]


def test_without_an_operation_all_are_meant() -> None:
    assert meant(TIDES, Grants(allow=(ALICE,))) == ["ALLOW User:alice from * ALL on TOPIC LITERAL tides"]


def test_each_principal_is_combined_with_each_of_its_hosts() -> None:
    grants = Grants((ALICE,), (EVE,), ("192.0.2.1", "192.0.2.2"), (), (Operation.READ,))
    assert meant(TIDES, grants, PatternType.PREFIXED) == [
        "ALLOW User:alice from 192.0.2.1 READ on TOPIC PREFIXED tides",
        "ALLOW User:alice from 192.0.2.2 READ on TOPIC PREFIXED tides",
        "DENY User:eve from * READ on TOPIC PREFIXED tides",
    ]


def test_a_producer_and_a_consumer_get_what_they_need() -> None:
    both = Resources(topics=("tides",), groups=("harbour",))
    rights = {
        (each.pattern.resource_type, each.operation)
        for each in bindings(both, LITERAL, Grants((ALICE,), producer=True, consumer=True))
    }
    assert rights == {
        *((ResourceType.TOPIC, each) for each in (Operation.READ, Operation.WRITE, Operation.DESCRIBE)),
        (ResourceType.TOPIC, Operation.CREATE),
        (ResourceType.GROUP, Operation.READ),
    }


def test_the_cluster_is_never_a_prefix() -> None:
    (cluster,) = bindings(Resources(cluster=True), PatternType.PREFIXED, Grants((ALICE,)))
    assert cluster.pattern.pattern_type is LITERAL


@pytest.mark.parametrize(
    ("resources", "grants", "match"),
    [
        (Resources(), Grants((ALICE,)), "name a resource"),
        (TIDES, Grants((ALICE,), consumer=True), "--group"),
        (Resources(groups=("g",)), Grants((ALICE,), producer=True), "--topic"),
        (TIDES, Grants(deny=(EVE,), producer=True), "allow"),
        (TIDES, Grants((ALICE,), operations=(Operation.CLUSTER_ACTION,)), "CLUSTER_ACTION"),
        (TIDES, Grants(deny=(EVE,), allow_hosts=("192.0.2.1",)), "--allow-principal"),
        (TIDES, Grants((ALICE,), deny_hosts=("192.0.2.1",)), "--deny-principal"),
    ],
)
def test_options_that_do_not_fit_together_are_refused(
    resources: Resources, grants: Grants, match: str
) -> None:
    with pytest.raises(click.UsageError, match=match):
        bindings(resources, LITERAL, grants)


def test_what_was_added_is_found_alone() -> None:
    added = bindings(TIDES, LITERAL, Grants((ALICE,), (EVE,), operations=(Operation.READ, Operation.WRITE)))
    for each in added:
        assert [other for other in added if exact(each).matches(other)] == [each]
    assert {each.permission for each in added} == {Permission.ALLOW, Permission.DENY}


def test_without_a_resource_all_are_listed() -> None:
    (every,) = filters(Resources(), PatternType.ANY, ())
    assert (every.resource_type, every.name, every.principal) == (ResourceType.ANY, None, None)
    assert len(filters(TIDES, PatternType.MATCH, (ALICE, EVE))) == 2
