"""The mechanisms of SASL that a login may use."""

from __future__ import annotations

from typing import Final

from strandline.errors import InvalidRequest
from strandline.security.acls import EVERY
from strandline.security.principal import ANONYMOUS, USER
from strandline.security.quotas.model import DEFAULT_SHOWN

SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
PLAIN: Final = "PLAIN"
OAUTHBEARER: Final = "OAUTHBEARER"

HASHES: Final = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
"""The hash of each SCRAM mechanism, as hashlib names it."""
KAFKA_NUMBERS: Final = {SCRAM_SHA_256: 1, SCRAM_SHA_512: 2}
"""The SCRAM mechanisms in Kafka's requests about users (KIP-554)."""
MECHANISMS: Final = (SCRAM_SHA_512, SCRAM_SHA_256, PLAIN, OAUTHBEARER)
"""All of them. Of those with passwords the strongest comes first."""
SECRETS_SENT: Final = frozenset({PLAIN, OAUTHBEARER})
"""Those whose message is enough for a login of everyone who reads it."""

NAME_CHARS_MAX: Final = 249
"""The longest name of a user: it is a znode's name, and part of a principal."""
_MEANINGS: Final = {
    EVERY: "every user",
    DEFAULT_SHOWN: "each user without a quota",
    ANONYMOUS.name: "callers without a name",
}
_KIND: Final = f"{USER}:"


def listed(text: str) -> tuple[str, ...]:
    """The names of a list with commas between them, each once."""
    return tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))


def parse_mechanisms(text: str) -> tuple[str, ...]:
    """Read a list of mechanisms with commas between them. Raises InvalidRequest."""
    found = listed(text)
    for name in found:
        if name not in MECHANISMS:
            raise InvalidRequest(f"mechanism {name!r} is none of {', '.join(MECHANISMS)}")
    return found


def check_user_name(name: str) -> None:
    """Raises InvalidRequest for a name that no user may have."""
    if not name:
        raise InvalidRequest("the name of a user is empty")
    if len(name) > NAME_CHARS_MAX:
        raise InvalidRequest(
            f"the user's name {name[:32]!r}… has {len(name)} characters, more than {NAME_CHARS_MAX}",
            limit=NAME_CHARS_MAX,
        )
    if not name.isprintable():
        raise InvalidRequest(f"the user's name {name!r} has characters that cannot be printed")


def check_new_user_name(name: str) -> None:
    """Raises InvalidRequest also for a name that commands or ACLs take for something else than this user."""
    check_user_name(name)
    if not name.strip():
        raise InvalidRequest(f"the user's name {name!r} is only spaces")
    if name in _MEANINGS:
        raise InvalidRequest(f"no user may have the name {name!r}: it means {_MEANINGS[name]}")
    if name.startswith(_KIND):
        raise InvalidRequest(f"the user's name {name[:32]!r} begins with {_KIND!r}: give it without that")
