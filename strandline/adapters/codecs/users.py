"""The RPCs of `strandline.v1.Admin` about users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from strandline.adapters.codecs.messages import (
    ERROR,
    MAP,
    Call,
    MessageCodec,
    at_most,
    call,
    many,
    only,
    scalars,
    shape,
)
from strandline.config.limits import USERS_PER_REQUEST_MAX
from strandline.ports import Listener
from strandline.rpc import admin_pb2
from strandline.security.login.credentials import Credential, UserChange
from strandline.vocabulary.admin import UserDescription, UserResult


def _write_change(change: UserChange, to: Listener) -> admin_pb2.UserScramChange:
    credential = change.credential
    return admin_pb2.UserScramChange(
        user=change.user,
        mechanism=change.mechanism,
        credential=None
        if credential is None
        else admin_pb2.ScramCredential(
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        ),
    )


def _read_change(message: Any) -> UserChange:
    if not message.HasField("credential"):
        return UserChange(message.user, message.mechanism)
    has = message.credential
    credential = Credential(message.mechanism, has.salt, has.stored_key, has.server_key, has.iterations)
    return UserChange(message.user, message.mechanism, credential)


_CHANGE: Final = MessageCodec(admin_pb2.UserScramChange, _write_change, _read_change)
_RESULT: Final = shape(admin_pb2.UserResult, UserResult, error=ERROR)
_DESCRIPTION: Final = shape(admin_pb2.UserDescription, UserDescription, iterations=MAP, error=ERROR)

ALTER_USERS: Final[Call[Sequence[UserChange], Sequence[UserResult]]] = call(
    "/strandline.v1.Admin/AlterUserScramCredentials",
    only(
        admin_pb2.AlterUserScramCredentialsRequest,
        "changes",
        many(_CHANGE, at_most(USERS_PER_REQUEST_MAX, "changes of users")),
    ),
    only(admin_pb2.AlterUserScramCredentialsResponse, "results", many(_RESULT)),
)
DESCRIBE_USERS: Final[Call[Sequence[str], Sequence[UserDescription]]] = call(
    "/strandline.v1.Admin/DescribeUserScramCredentials",
    only(
        admin_pb2.DescribeUserScramCredentialsRequest,
        "users",
        scalars(at_most(USERS_PER_REQUEST_MAX, "users")),
    ),
    only(admin_pb2.DescribeUserScramCredentialsResponse, "users", many(_DESCRIPTION)),
)
