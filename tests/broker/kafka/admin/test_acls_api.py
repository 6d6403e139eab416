"""ACLs that Kafka clients ask for, as the controller gets them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from strandline.broker.kafka.handlers.acls import AclsApi
from strandline.broker.kafka.handlers.controller import ControllerRequests
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.acls import (
    Acl,
    AclsOfPattern,
    CreateAclsRequest,
    DeleteAclsRequest,
    DeletedAcl,
    DeletedByFilter,
    DescribeAclsRequest,
    Entry,
    Outcome,
    Pattern,
)
from strandline.errors import ErrorCode, OutcomeUnknown
from strandline.security.access import Access
from strandline.security.acls import (
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.decide import Acls
from strandline.security.principal import ANONYMOUS, Principal
from strandline.vocabulary.admin import AclResult, DeletedAcls
from tests.broker.kafka.support.asking import called
from tests.broker.kafka.support.controller import MemoryController
from tests.broker.support.access import OPEN
from tests.broker.support.replicas import CLOCK

CALL = called(apis.CREATE_ACLS, 2)
TIDES = Acl(Pattern(2, "tides", 3), Entry("User:alice", "*", 3, 3))
BINDING = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "tides"), Principal("alice"), "*", Operation.READ, Permission.ALLOW
)


def guarded(*super_users: Principal) -> Access:
    authorizer = Authorizer(Rules(frozenset(super_users)))
    authorizer.take(Acls(1))
    return Access(authorizer)


def api(controller: MemoryController, access: Access | None = None) -> AclsApi:
    return AclsApi(partial(ControllerRequests, controller.link), access or guarded(ANONYMOUS), CLOCK)


async def test_each_acl_has_its_outcome() -> None:
    """One that cannot be does not spoil the others, and never reaches the controller."""
    controller = MemoryController(lambda wanted: [AclResult(each) for each in wanted])
    wrong = [
        TIDES._replace(pattern=Pattern(99, "tides", 3)),
        TIDES._replace(entry=TIDES.entry._replace(principal="alice")),
        TIDES._replace(entry=TIDES.entry._replace(host="example.net")),
    ]
    answer = await api(controller).create(CreateAclsRequest((*wrong, TIDES)), CALL)
    assert [each.error for each in answer.outcomes] == [int(ErrorCode.INVALID_REQUEST)] * len(wrong) + [0]
    assert controller.asked == [("CreateAcls", [BINDING])]


async def test_what_only_filters_have_is_answered_as_by_kafka() -> None:
    """Clients give up at UNKNOWN_SERVER_ERROR as at INVALID_REQUEST."""
    controller = MemoryController(lambda wanted: [AclResult(each) for each in wanted])
    wrong = [
        TIDES._replace(pattern=Pattern(1, "tides", 3)),
        TIDES._replace(pattern=Pattern(2, "tides", 1)),
        TIDES._replace(pattern=Pattern(2, "tides", 2)),
        TIDES._replace(entry=TIDES.entry._replace(operation=1)),
        TIDES._replace(entry=TIDES.entry._replace(permission=1)),
    ]
    answer = await api(controller).create(CreateAclsRequest((*wrong, TIDES)), CALL)
    failed = [int(ErrorCode.UNKNOWN_SERVER_ERROR)] * len(wrong)
    assert [each.error for each in answer.outcomes] == [*failed, 0]
    assert controller.asked == [("CreateAcls", [BINDING])]


async def test_a_filter_says_what_was_deleted() -> None:
    refused = AclResult(replace(BINDING, operation=Operation.WRITE), OutcomeUnknown("x"))
    controller = MemoryController(lambda wanted: [DeletedAcls((AclResult(BINDING), refused))])
    every = Acl(Pattern(1, None, 1), Entry(None, None, 1, 1))
    wrong = every._replace(entry=every.entry._replace(principal="x"))
    answer = await api(controller).delete(DeleteAclsRequest((wrong, every)), CALL)
    assert controller.asked == [("DeleteAcls", [AclFilter()])]
    bad, good = answer.filters
    assert (bad.outcome.error, bad.acls) == (ErrorCode.INVALID_REQUEST, ())
    not_deleted = TIDES._replace(entry=TIDES.entry._replace(operation=4))
    timed_out = Outcome(int(ErrorCode.REQUEST_TIMED_OUT), "x")
    assert good == DeletedByFilter(
        Outcome(), (DeletedAcl(Outcome(), TIDES), DeletedAcl(timed_out, not_deleted))
    )


EMPTY = (
    TIDES._replace(pattern=TIDES.pattern._replace(name="")),
    TIDES._replace(entry=TIDES.entry._replace(host="")),
    TIDES._replace(entry=TIDES.entry._replace(principal="")),
)
"""What the filters of a script have whose variable is unset."""


async def test_an_empty_part_of_a_filter_is_no_part_for_all() -> None:
    """KIP-140: null alone matches every name. An empty one deleted the ACLs of all topics; it
    finds none, as in Kafka."""
    controller = MemoryController(lambda wanted: [DeletedAcls((AclResult(BINDING),))])
    deleted = await api(controller).delete(DeleteAclsRequest((*EMPTY, TIDES)), CALL)
    described = [await api(controller).describe(DescribeAclsRequest(each), CALL) for each in EMPTY]
    outcomes = [each.outcome for each in deleted.filters]
    assert [each.error for each in outcomes] == [int(ErrorCode.INVALID_REQUEST)] * len(EMPTY) + [0]
    expected = "the name of the filter is empty: give one, or leave it out (null) for every name"
    assert outcomes[0].message == expected
    assert [(each.outcome.error, each.patterns) for each in described] == [(0, ())] * len(EMPTY)
    assert [name for name, _ in controller.asked] == ["DeleteAcls"]


async def test_described_acls_are_grouped_by_their_pattern() -> None:
    prefixed = ResourcePattern(ResourceType.GROUP, "g", PatternType.PREFIXED)
    other = replace(BINDING, operation=Operation.WRITE)
    controller = MemoryController(lambda wanted: [BINDING, other, replace(BINDING, pattern=prefixed)])
    wanted = Acl(Pattern(2, "tides", 2), Entry(None, "*", 1, 3))
    answer = await api(controller).describe(DescribeAclsRequest(wanted), CALL)
    asked = AclFilter(ResourceType.TOPIC, "tides", PatternType.MATCH, host="*", permission=Permission.ALLOW)
    assert controller.asked == [("DescribeAcls", asked)]
    assert answer.patterns == (
        AclsOfPattern(TIDES.pattern, (TIDES.entry, TIDES.entry._replace(operation=4))),
        AclsOfPattern(Pattern(3, "g", 4), (TIDES.entry,)),
    )


async def refusals(asked: AclsApi) -> list[int]:
    """The error of each API."""
    created = await asked.create(CreateAclsRequest((TIDES,)), CALL)
    deleted = await asked.delete(DeleteAclsRequest((TIDES,)), CALL)
    described = await asked.describe(DescribeAclsRequest(TIDES), CALL)
    return [created.outcomes[0].error, deleted.filters[0].outcome.error, described.outcome.error]


async def test_only_who_may_alter_the_cluster_alters_acls() -> None:
    """And without an authorizer there are none (A3)."""

    def never(request: Any) -> Any:
        raise AssertionError(request)

    controller = MemoryController(never)
    denied = int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert await refusals(api(controller, guarded())) == [denied] * 3
    assert await refusals(api(controller, OPEN)) == [int(ErrorCode.SECURITY_DISABLED)] * 3
