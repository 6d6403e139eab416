"""The operations that a client may do, as Kafka's tools show them (KIP-430)."""

from __future__ import annotations

from strandline.broker.kafka.handlers.operations import operations_of
from strandline.security.access import Access
from strandline.security.acls import AclBinding, Operation, Permission, ResourcePattern, ResourceType
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.decide import Acls
from tests.broker.support.access import CALLER, OPEN


def bits(*operations: Operation) -> int:
    return sum(1 << each for each in operations)


def test_without_an_authorizer_a_client_may_do_all_that_there_is() -> None:
    """A3: as Kafka answers."""
    own = Operation.READ, Operation.DESCRIBE, Operation.DELETE
    group = bits(*own, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
    assert operations_of(OPEN, CALLER, ResourceType.GROUP, "harbour") == group


def test_a_client_may_do_what_is_allowed_and_what_that_implies() -> None:
    """A3"""
    authorizer = Authorizer(Rules())
    pattern = ResourcePattern(ResourceType.TOPIC, "tides")
    reads = AclBinding(pattern, CALLER.principal, "*", Operation.READ, Permission.ALLOW)
    authorizer.take(Acls(1, [reads]))
    access = Access(authorizer)
    found = operations_of(access, CALLER, ResourceType.TOPIC, "tides")
    assert found == bits(Operation.READ, Operation.DESCRIBE)
    assert operations_of(access, CALLER, ResourceType.TOPIC, "other") == 0
