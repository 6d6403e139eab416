"""DescribeUserScramCredentials and AlterUserScramCredentials."""

from __future__ import annotations

from typing import Final

from strandline.broker.kafka.wire.admin.users import (
    AlteredUser,
    AlterUsersAnswer,
    AlterUsersRequest,
    CredentialInfo,
    Deletion,
    DescribedUser,
    DescribeUsersAnswer,
    DescribeUsersRequest,
    Upsertion,
)
from strandline.broker.kafka.wire.apis import ALTER_USERS, DESCRIBE_USERS
from tests.broker.kafka.support.kio_codec import Values
from tests.broker.kafka.support.mapped.mapped import Mapped


def describe_request(asked: Values, version: int) -> DescribeUsersRequest:
    return DescribeUsersRequest(tuple(each["name"] for each in asked["users"] or ()))


def described(found: Values) -> DescribedUser:
    return DescribedUser(
        found["user"],
        found["error_code"],
        found["error_message"],
        tuple(CredentialInfo(each["mechanism"], each["iterations"]) for each in found["credential_infos"]),
    )


def describe_answer(found: Values, version: int) -> DescribeUsersAnswer:
    users = tuple(map(described, found["results"]))
    return DescribeUsersAnswer(found["error_code"], found["error_message"], users)


def alter_request(asked: Values, version: int) -> AlterUsersRequest:
    return AlterUsersRequest(
        tuple(Deletion(each["name"], each["mechanism"]) for each in asked["deletions"]),
        tuple(
            Upsertion(
                each["name"], each["mechanism"], each["iterations"], each["salt"], each["salted_password"]
            )
            for each in asked["upsertions"]
        ),
    )


def alter_answer(found: Values, version: int) -> AlterUsersAnswer:
    return AlterUsersAnswer(
        tuple(
            AlteredUser(each["user"], each["error_code"], each["error_message"]) for each in found["results"]
        )
    )


MAPPED: Final = (
    Mapped(DESCRIBE_USERS, describe_request, describe_answer),
    Mapped(ALTER_USERS, alter_request, alter_answer),
)
