"""Which new ACLs there may be: those that some caller can need for some resource.

An ACL that covers nothing looks like a permission, or worse like a denial, and is none. Those that are stored
already are read and deleted as ever.
"""

from __future__ import annotations

import re
from typing import Final

from strandline.errors import InvalidRequest, StrandlineError
from strandline.security.acls import (
    EVERY,
    OPERATIONS,
    AclBinding,
    Operation,
    PatternType,
    ResourcePattern,
    ResourceType,
)
from strandline.security.login.mechanisms import check_user_name
from strandline.security.principal import USER
from strandline.vocabulary.topics import check_topic_name

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_IDS: Final = {ResourceType.GROUP: "group ids", ResourceType.TRANSACTIONAL_ID: "transactional ids"}
_TOPIC_BEGINNINGS: Final = (".", "..")
"""No topics' names, but those of topics may begin so."""


def check_new_acl(binding: AclBinding) -> None:
    """Raises InvalidRequest for an ACL that covers no request: no resource matches its pattern, no caller has
    its principal, or its operation does not exist for the type of resource."""
    _check_pattern(binding.pattern)
    of, operation, principal = binding.pattern.resource_type, binding.operation, binding.principal
    if principal.kind != USER:
        raise InvalidRequest(
            f"an ACL for {principal} would cover nothing: the principal of a caller begins with '{USER}:', "
            "in these letters"
        )
    if operation is not Operation.ALL and operation not in OPERATIONS[of]:
        there = ", ".join(sorted(each.name for each in OPERATIONS[of]))
        raise InvalidRequest(
            f"an ACL about {operation.name} on {binding.pattern} would cover nothing: "
            f"a {of.name} has ALL, {there}"
        )


def _check_pattern(pattern: ResourcePattern) -> None:
    name, prefixed = pattern.name, pattern.pattern_type is PatternType.PREFIXED
    if name == EVERY:
        if prefixed:
            kind = pattern.resource_type.name.lower()
            raise InvalidRequest(
                f"{pattern} is about names that begin with an asterisk: for every {kind} use {EVERY!r} with "
                "the pattern type literal"
            )
        return
    try:
        _check_name(pattern.resource_type, name, prefixed=prefixed)
    except StrandlineError as error:
        raise InvalidRequest(f"an ACL on {pattern} would cover nothing: {error.message}") from None


def _check_name(of: ResourceType, name: str, *, prefixed: bool) -> None:
    if of is ResourceType.TOPIC and not (prefixed and name in _TOPIC_BEGINNINGS):
        check_topic_name(name)
    elif of is ResourceType.USER:
        check_user_name(name)
    elif of in _IDS and _CONTROL.search(name):
        raise InvalidRequest(f"{_IDS[of]} have no control characters")
