"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554): the users who log in by SCRAM.
Mechanisms are numbers, as the client sent them: the handler knows which exist."""

from __future__ import annotations

from typing import Final, NamedTuple

from strandline.broker.kafka.wire.fields import Reader, Steps, Writer

_NAME_BYTES_MIN: Final = 2
_DELETION_BYTES_MIN: Final = 3
_UPSERTION_BYTES_MIN: Final = 9


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
    message: str | None = None
    credentials: tuple[CredentialInfo, ...] = ()


class DescribeUsersAnswer(NamedTuple):
    error: int = 0
    message: str | None = None
    users: tuple[DescribedUser, ...] = ()


def read_describe(reader: Reader, version: int) -> DescribeUsersRequest:
    def read_name(reader: Reader) -> str:
        name = reader.string()
        reader.tags()
        return name

    return DescribeUsersRequest(reader.nullable_array(read_name, bytes_min=_NAME_BYTES_MIN) or ())


def write_describe(writer: Writer, answer: DescribeUsersAnswer, version: int) -> Steps:
    def write_credential(credential: CredentialInfo) -> None:
        writer.int8(credential.mechanism)
        writer.int32(credential.iterations)
        writer.tags()

    def write_user(found: DescribedUser) -> None:
        writer.string(found.user)
        writer.int16(found.error)
        writer.string(found.message)
        writer.array(found.credentials, write_credential)
        writer.tags()

    writer.throttle_time()
    writer.int16(answer.error)
    writer.string(answer.message)
    yield from writer.large_array(answer.users, write_user)
    writer.tags()


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


def read_alter(reader: Reader, version: int) -> AlterUsersRequest:
    def read_deletion(reader: Reader) -> Deletion:
        deletion = Deletion(reader.string(), reader.int8())
        reader.tags()
        return deletion

    def read_upsertion(reader: Reader) -> Upsertion:
        upsertion = Upsertion(reader.string(), reader.int8(), reader.int32(), reader.blob(), reader.blob())
        reader.tags()
        return upsertion

    return AlterUsersRequest(
        reader.array(read_deletion, bytes_min=_DELETION_BYTES_MIN),
        reader.array(read_upsertion, bytes_min=_UPSERTION_BYTES_MIN),
    )


def write_alter(writer: Writer, answer: AlterUsersAnswer, version: int) -> Steps:
    def write_user(altered: AlteredUser) -> None:
        writer.string(altered.user)
        writer.int16(altered.error)
        writer.string(altered.message)
        writer.tags()

    writer.throttle_time()
    yield from writer.large_array(answer.users, write_user)
    writer.tags()
