"""Users that Kafka clients ask for, as the controller gets them."""

from __future__ import annotations

from functools import partial

from strandline.broker.kafka.errors import KafkaCode
from strandline.broker.kafka.handlers.controller import ControllerRequests
from strandline.broker.kafka.handlers.logins.users import UsersApi
from strandline.broker.kafka.wire import apis
from strandline.broker.kafka.wire.admin.users import (
    AlteredUser,
    AlterUsersRequest,
    CredentialInfo,
    Deletion,
    DescribedUser,
    DescribeUsersRequest,
    Upsertion,
)
from strandline.errors import ErrorCode, ResourceNotFound
from strandline.security.login.credentials import UserChange, make_credential, salted_password
from strandline.security.login.mechanisms import SCRAM_SHA_256, SCRAM_SHA_512
from strandline.vocabulary.admin import UserDescription, UserResult
from tests.broker.kafka.support.asking import called
from tests.broker.kafka.support.controller import MemoryController
from tests.broker.support.access import OPEN
from tests.broker.support.replicas import CLOCK

CALL = called(apis.ALTER_USERS, 0)
SALT = b"0123456789abcdef"
SALTED = salted_password(SCRAM_SHA_256, "wonderland", SALT, 4_096)
CREDENTIAL = make_credential(SCRAM_SHA_256, "wonderland", SALT, 4_096)


def api(controller: MemoryController) -> UsersApi:
    return UsersApi(partial(ControllerRequests, controller.link), OPEN, CLOCK)


def upsertion(user: str, *, mechanism: int = 1, iterations: int = 4_096) -> Upsertion:
    return Upsertion(user, mechanism, iterations, SALT, SALTED)


async def test_the_controller_gets_keys_and_no_salted_password() -> None:
    """A11: a salted password is enough for a login, and goes no further."""
    controller = MemoryController(lambda changes: [UserResult(each.user) for each in changes])
    answer = await api(controller).alter(
        AlterUsersRequest((Deletion("bob", 2),), (upsertion("alice"),)), CALL
    )
    assert answer.users == (AlteredUser("bob"), AlteredUser("alice"))
    wanted = [UserChange("bob", SCRAM_SHA_512), UserChange("alice", SCRAM_SHA_256, CREDENTIAL)]
    assert controller.asked == [("AlterUserScramCredentials", wanted)]
    assert SALTED not in (CREDENTIAL.stored_key, CREDENTIAL.server_key)
    assert repr(SALTED) not in repr(upsertion("alice")) and repr(SALT) not in repr(upsertion("alice"))


async def test_each_user_is_answered_alone() -> None:
    """One that cannot be does not spoil the others, and never reaches the controller."""
    controller = MemoryController(
        lambda changes: [UserResult(each.user, ResourceNotFound("x")) for each in changes]
    )
    request = AlterUsersRequest(
        (Deletion("unknown", 0), Deletion("twice", 1), Deletion("nobody", 1)),
        (
            upsertion("twice"),
            upsertion("few", iterations=4_095),
            upsertion("many", iterations=16_385),
            upsertion("long", mechanism=2),
            upsertion(""),
            upsertion("*"),
            upsertion("half"),
            upsertion("half", mechanism=3),
        ),
    )
    answer = await api(controller).alter(request, CALL)
    assert {each.user: each.error for each in answer.users} == {
        "unknown": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "twice": KafkaCode.DUPLICATE_RESOURCE,
        "nobody": ErrorCode.RESOURCE_NOT_FOUND,
        "few": KafkaCode.UNACCEPTABLE_CREDENTIAL,
        "many": KafkaCode.UNACCEPTABLE_CREDENTIAL,
        "long": KafkaCode.UNACCEPTABLE_CREDENTIAL,
        "": KafkaCode.UNACCEPTABLE_CREDENTIAL,
        "*": KafkaCode.UNACCEPTABLE_CREDENTIAL,
        "half": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    }
    assert controller.asked == [("AlterUserScramCredentials", [UserChange("nobody", SCRAM_SHA_256)])]


async def test_users_are_described_without_salts_and_keys() -> None:
    """A11"""
    controller = MemoryController(lambda _: [UserDescription("alice", {SCRAM_SHA_512: 8_192})])
    alice = DescribedUser("alice", credentials=(CredentialInfo(2, 8_192),))
    for request in (DescribeUsersRequest(), DescribeUsersRequest(("alice",))):
        answer = await api(controller).describe(request, CALL)
        assert (answer.error, answer.users) == (0, (alice,))
    answer = await api(controller).describe(DescribeUsersRequest(("bob", "alice", "bob")), CALL)
    assert [(each.user, each.error) for each in answer.users] == [
        ("bob", KafkaCode.DUPLICATE_RESOURCE), ("alice", 0),
    ]  # fmt: skip
    answer = await api(controller).describe(DescribeUsersRequest(("bob", "bob")), CALL)
    assert [each.user for each in answer.users] == ["bob"]
    asked = [names for _, names in controller.asked]
    assert asked == [(), ["alice"], ["alice"]], "no request about nobody, which would be about all"
