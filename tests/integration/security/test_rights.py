"""Every RPC and every Kafka API, for callers with and without the rights that its row names (A3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from strandline.security.acls import (
    AclBinding,
    PatternType,
    Permission,
    ResourceType,
)
from strandline.security.calls import KAFKA_APIS, RPCS
from strandline.security.principal import Principal
from strandline.security.rights import Right
from strandline.security.rows import Decided
from strandline.testing import SimulatedCluster
from tests.integration.security.support.bindings import ALICE, binding
from tests.integration.security.support.cases import Case
from tests.integration.security.support.kafka_cases import KAFKA_CASES
from tests.integration.security.support.rpc_cases import CALLS, STREAMS
from tests.integration.security.support.stage import ROOT, Stage, secure_cluster
from tests.integration.security.support.transaction_cases import TRANSACTION_APIS, TRANSACTION_CALLS

EVERYONE: Final = Principal("*")
ELSEWHERE: Final = "203.0.113.9"
PREFIX_CHARS: Final = 3
ABOUT_ACLS: Final = ("DescribeAcls", "CreateAcls", "DeleteAcls")

CASES: Final = {
    "RPCs": (*STREAMS, *CALLS, *TRANSACTION_CALLS), "Kafka APIs": (*KAFKA_CASES, *TRANSACTION_APIS),
}  # fmt: skip
Granted = Callable[[Right, str], Iterator[AclBinding]]


def none(right: Right, name: str) -> Iterator[AclBinding]:
    yield from ()


def literal(right: Right, name: str) -> Iterator[AclBinding]:
    yield binding(right, name)


def prefixed(right: Right, name: str) -> Iterator[AclBinding]:
    """The cluster has one name, and no prefix of it."""
    if right.of is ResourceType.CLUSTER:
        yield binding(right, name)
    else:
        yield binding(right, name[:PREFIX_CHARS], kind=PatternType.PREFIXED)


def denied(right: Right, name: str) -> Iterator[AclBinding]:
    yield binding(right, name)
    yield binding(right, name, principal=EVERYONE, permission=Permission.DENY)


def elsewhere(right: Right, name: str) -> Iterator[AclBinding]:
    yield binding(right, name, host=ELSEWHERE)


SCENARIOS: Final[dict[str, tuple[Granted, Principal, bool]]] = {
    "no ACL": (none, ALICE, False),
    "ALLOW": (literal, ALICE, True),
    "ALLOW by prefix": (prefixed, ALICE, True),
    "DENY over ALLOW": (denied, ALICE, False),
    "super user": (denied, ROOT, True),
    "another host": (elsewhere, ALICE, False),
}


async def wrong_cases(stage: Stage, cases: tuple[Case, ...], scenario: str) -> list[tuple[str, Any]]:
    """The cases that did not end as the scenario has it, with their outcomes."""
    granted, principal, is_allowed = SCENARIOS[scenario]
    wrong: list[tuple[str, Any]] = []
    for case in cases:
        await stage.commit()
        await stage.only(each for right, name in case.resources for each in granted(right, name))
        outcome = await stage.outcome(case, principal)
        if case.is_refused(outcome) == is_allowed:
            wrong.append((str(case), outcome))
    return wrong


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("kind", CASES)
def test_a_call_takes_exactly_the_rights_of_its_row(kind: str, scenario: str) -> None:
    """A3: with them nothing is refused, and without them no part of the request is carried out."""
    with secure_cluster() as cluster:

        async def play() -> None:
            stage = Stage(cluster)
            await stage.prepare()
            assert await wrong_cases(stage, CASES[kind], scenario) == []

        cluster.run(play())


@pytest.mark.parametrize("kind", CASES)
def test_each_of_several_rights_is_needed(kind: str) -> None:
    """A3"""
    with secure_cluster() as cluster:

        async def play(cluster: SimulatedCluster = cluster) -> None:
            stage = Stage(cluster)
            await stage.prepare()
            for case in CASES[kind]:
                for left_out in case.needs if len(case.needs) > 1 else ():
                    await stage.commit()
                    kept = [each for each in case.resources if each[0] != left_out]
                    await stage.only(binding(right, name) for right, name in kept)
                    outcome = await stage.outcome(case, ALICE)
                    assert case.is_refused(outcome), (str(case), left_out, outcome)

        cluster.run(play())


def test_every_row_has_a_case() -> None:
    """A3: but for the calls of members and Kafka's requests about ACLs, which have tests of their own, and
    for what needs no right."""
    for rows, cases in ((RPCS, CASES["RPCs"]), (KAFKA_APIS, CASES["Kafka APIs"])):
        needed = {
            path: set(row.rights)
            for path, row in rows.items()
            if row.decided in (Decided.BEFORE, Decided.BY_HANDLER) and path not in ABOUT_ACLS
        }
        used: dict[str, set[Right]] = {}
        for case in cases:
            used.setdefault(case.name, set()).update(case.needs)
        assert used.keys() == needed.keys()
        for path, rights in used.items():
            assert rights <= needed[path], path
