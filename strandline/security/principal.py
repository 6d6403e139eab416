"""Principals: the names of those who make calls, as Kafka writes them (`User:alice`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strandline.errors import InvalidRequest

USER: Final = "User"
"""The only kind that a caller's principal has. ACLs may name others, as in Kafka: they match no caller."""
PRINCIPAL_CHARS_MAX: Final = 1_000
"""The longest principal, with its kind: a whole distinguished name of a certificate has room."""


@dataclass(frozen=True, slots=True, order=True)
class Principal:
    """Who makes a call, or whom an ACL is about. `str` gives what `parse` takes."""

    name: str
    kind: str = USER

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Read `User:alice`. Raises InvalidRequest."""
        kind, colon, name = text.partition(":")
        if not (kind and colon and name):
            raise InvalidRequest(f"principal {text!r} is not of the form User:name")
        if len(text) > PRINCIPAL_CHARS_MAX:
            raise InvalidRequest(
                f"principal {text[:32]!r}… has {len(text)} characters, more than {PRINCIPAL_CHARS_MAX}",
                limit=PRINCIPAL_CHARS_MAX,
            )
        if not text.isprintable():
            raise InvalidRequest(f"principal {text!r} has characters that cannot be printed")
        return cls(name, kind)

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("ANONYMOUS")
"""Any caller on a listener that does not authenticate its callers."""


def parse_principals(text: str) -> frozenset[Principal]:
    """Read a list of principals, with semicolons between them: names have commas. Raises InvalidRequest."""
    return frozenset(Principal.parse(each) for each in filter(None, map(str.strip, text.split(";"))))
