"""The rules for names of topics."""

from __future__ import annotations

import re
from typing import Final

from strandline.config.limits import TOPIC_NAME_LENGTH_MAX
from strandline.errors import InvalidTopic

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Check a name against Kafka's rules. Raises InvalidTopic."""
    if not name:
        raise InvalidTopic("a topic's name is empty")
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        raise InvalidTopic(
            f"topic name {name[:32]}… of {len(name)} characters; at most {TOPIC_NAME_LENGTH_MAX} are allowed",
            limit=TOPIC_NAME_LENGTH_MAX,
        )
    if name in (".", ".."):
        raise InvalidTopic(f"topic name {name!r} is not allowed")
    if _LEGAL_NAME.fullmatch(name) is None:
        raise InvalidTopic(f"topic name {name!r}: only ASCII letters, digits, '.', '_' and '-' are allowed")


def is_topic_name(name: str) -> bool:
    """Whether the name is a legal topic name."""
    try:
        check_topic_name(name)
    except InvalidTopic:
        return False
    return True
