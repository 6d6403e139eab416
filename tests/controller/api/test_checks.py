"""Which topics of an admin request its caller may change."""

from __future__ import annotations

import pytest

from strandline.adapters.rpc.member_key import MemberKey
from strandline.controller.api.checks import AdminChecks
from strandline.errors import InvalidRequest, TopicAuthorizationFailed
from strandline.ports import Caller
from strandline.security.access import Access
from strandline.security.acls import AclBinding, Permission, ResourcePattern
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.decide import Acls
from strandline.security.principal import Principal
from strandline.security.rights import DELETE_TOPIC
from strandline.vocabulary.admin import DeleteTopics, TopicResult

ALICE = Caller("ipv4:192.0.2.1:1", "192.0.2.1", principal=Principal("alice"))
OWN = AclBinding(
    ResourcePattern(DELETE_TOPIC.of, "own"), ALICE.principal, "*", DELETE_TOPIC.operation, Permission.ALLOW
)


@pytest.fixture
def checks() -> AdminChecks:
    authorizer = Authorizer(Rules())
    authorizer.take(Acls(1, [OWN]))
    return AdminChecks(Access(authorizer), MemberKey(lambda: "x"))


def test_a_deletion_keeps_the_ids_of_its_topics_and_the_order_of_its_answers(checks: AdminChecks) -> None:
    """A3"""
    allowed = checks.delete_topics(DeleteTopics(["a", "own", "b"], ["1", "2", "3"]), ALICE)
    assert allowed is not None
    assert allowed.request == DeleteTopics(["own"], ["2"])
    first, own, last = allowed.whole([TopicResult("own", topic_id="2")])
    assert own == TopicResult("own", topic_id="2")
    assert [type(each.error) for each in (first, last)] == [TopicAuthorizationFailed] * 2


def test_a_deletion_with_too_few_ids_is_refused_though_one_of_its_topics_is(checks: AdminChecks) -> None:
    """It raised IndexError, which ends the controller."""
    with pytest.raises(InvalidRequest, match="1 ids for 2 topics"):
        checks.delete_topics(DeleteTopics(["a", "own"], ["1"]), ALICE)
