"""Which patterns a new ACL may have: those that a resource can match.

An ACL that covers nothing looks like a permission, or worse like a denial, and is none. Those that are stored
already are read and deleted as ever.
"""

from __future__ import annotations

import re
from typing import Final

from strandline.errors import InvalidRequest, StrandlineError
from strandline.security.acls import EVERY, PatternType, ResourcePattern, ResourceType
from strandline.security.login.mechanisms import check_user_name
from strandline.vocabulary.topics import check_topic_name

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_TOPIC_BEGINNINGS: Final = (".", "..")
"""No topics' names, but those of topics may begin so."""


def check_new_pattern(pattern: ResourcePattern) -> None:
    """Raises InvalidRequest for a pattern that no resource can match."""
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
    elif of is ResourceType.GROUP and _CONTROL.search(name):
        raise InvalidRequest("group ids have no control characters")
