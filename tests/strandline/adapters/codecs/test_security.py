"""Requests about ACLs and users have a bound, which a server checks before it reads an element."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.adapters.codecs.acls import CREATE_ACLS, DELETE_ACLS
from strandline.adapters.codecs.users import ALTER_USERS, DESCRIBE_USERS
from strandline.config.limits import ACLS_PER_REQUEST_MAX, USERS_PER_REQUEST_MAX
from strandline.errors import InvalidRequest
from strandline.security.acls import (
    AclBinding,
    AclFilter,
    Operation,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.login.credentials import UserChange
from strandline.security.login.mechanisms import SCRAM_SHA_256
from strandline.security.principal import Principal

ACL = AclBinding(
    ResourcePattern(ResourceType.TOPIC, "tides"), Principal("alice"), "*", Operation.READ, Permission.ALLOW
)


@pytest.mark.parametrize(
    ("call", "element", "most"),
    [
        (CREATE_ACLS, ACL, ACLS_PER_REQUEST_MAX),
        (DELETE_ACLS, AclFilter(name="tides"), ACLS_PER_REQUEST_MAX),
        (ALTER_USERS, UserChange("alice", SCRAM_SHA_256), USERS_PER_REQUEST_MAX),
        (DESCRIBE_USERS, "alice", USERS_PER_REQUEST_MAX),
    ],
    ids=["create ACLs", "delete ACLs", "alter users", "describe users"],
)
def test_more_elements_than_a_request_may_have_are_refused(call: Any, element: object, most: int) -> None:
    assert len(call.served.decode(call.encode([element] * most))) == most
    with pytest.raises(InvalidRequest, match="at most") as raised:
        call.served.decode(call.encode([element] * (most + 1)))
    assert raised.value.limit == most
