"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554): the users who log in by SCRAM.
Mechanisms are numbers, as the client sent them: the handler knows which exist."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.table.rows import (
    BYTES,
    ERROR,
    INT8,
    INT32,
    MESSAGE,
    STRING,
    Array,
    Struct,
    row,
    throttle,
)

# --- DescribeUserScramCredentials -------------------------------------------------------------


class DescribeUsersRequest(NamedTuple):
    users: tuple[str, ...] = ()
    """Without names: all."""


class CredentialInfo(NamedTuple):
    mechanism: int
    iterations: int


class DescribedUser(NamedTuple):
    user: str
    error: int = 0
    message: str | None = ""
    credentials: tuple[CredentialInfo, ...] = ()


class DescribeUsersAnswer(NamedTuple):
    error: int = 0
    message: str | None = ""
    users: tuple[DescribedUser, ...] = ()


DESCRIBE_REQUEST: Final = Struct(
    DescribeUsersRequest,
    row("users", Array(Struct(None, STRING("name"))), nullable=0, read=lambda users: users or ()),
)
_CREDENTIAL: Final = Struct(CredentialInfo, INT8("mechanism"), INT32("iterations"))
_CREDENTIALS: Final = row("credential_infos", Array(_CREDENTIAL), "credentials")
_DESCRIBED: Final = Struct(DescribedUser, STRING("user"), ERROR, MESSAGE, _CREDENTIALS)
DESCRIBE_ANSWER: Final = Struct(
    DescribeUsersAnswer, throttle(), ERROR, MESSAGE, row("results", Array(_DESCRIBED, large=True), "users")
)


# --- AlterUserScramCredentials ----------------------------------------------------------------


class Deletion(NamedTuple):
    user: str
    mechanism: int


class Upsertion(NamedTuple):
    """A credential that is set."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes
    """Who has it can log in."""

    def __repr__(self) -> str:
        """Without the password."""
        return f"Upsertion({self.user!r}, {self.mechanism}, iterations={self.iterations})"


class AlterUsersRequest(NamedTuple):
    deletions: tuple[Deletion, ...]
    upsertions: tuple[Upsertion, ...]


class AlteredUser(NamedTuple):
    user: str
    error: int = 0
    message: str | None = None


class AlterUsersAnswer(NamedTuple):
    users: tuple[AlteredUser, ...]


_DELETION: Final = Struct(Deletion, STRING("name", "user"), INT8("mechanism"))
_UPSERTION: Final = Struct(
    Upsertion,
    STRING("name", "user"),
    INT8("mechanism"),
    INT32("iterations"),
    BYTES("salt"),
    BYTES("salted_password"),
)
ALTER_REQUEST: Final = Struct(
    AlterUsersRequest, row("deletions", Array(_DELETION)), row("upsertions", Array(_UPSERTION))
)
_ALTERED: Final = Struct(AlteredUser, STRING("user"), ERROR, MESSAGE)
ALTER_ANSWER: Final = Struct(
    AlterUsersAnswer, throttle(), row("results", Array(_ALTERED, large=True), "users")
)
