"""Passes DescribeUserScramCredentials and AlterUserScramCredentials on to the active controller (KIP-554)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from strandline.adapters.codecs.users import ALTER_USERS, DESCRIBE_USERS
from strandline.broker.kafka.call import Call
from strandline.broker.kafka.errors import KafkaCode, code_of, message_of, text_of
from strandline.broker.kafka.handlers.controller import ControllerFor, Deadline, check_count
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
from strandline.errors import InvalidRequest, StrandlineError, UnsupportedSaslMechanism
from strandline.ports import Clock
from strandline.security.access import Access
from strandline.security.login.credentials import UserChange, credential_of
from strandline.security.login.mechanisms import KAFKA_NUMBERS
from strandline.security.rights import ALTER_CLUSTER, DESCRIBE_CLUSTER
from strandline.vocabulary.admin import UserDescription

_MECHANISMS: Final = {number: mechanism for mechanism, number in KAFKA_NUMBERS.items()}


class UsersApi:
    """These APIs, for all connections of one broker."""

    def __init__(self, controller: ControllerFor, access: Access, clock: Clock) -> None:
        self._controller = controller
        self._access = access
        self._clock = clock

    async def describe(self, request: DescribeUsersRequest, call: Call) -> DescribeUsersAnswer:
        """A user that is named twice, or does not exist, has an error of its own."""
        try:
            self._access.check(call.caller, DESCRIBE_CLUSTER)
            check_count(request.users, "users")
            if not request.users:
                return DescribeUsersAnswer(
                    users=tuple([_described(each) for each in await self._ask((), call)])
                )
            times = Counter(request.users)
            once = [user for user, count in times.items() if count == 1]
            described = await self._ask(once, call) if once else ()
        except StrandlineError as error:
            return DescribeUsersAnswer(code_of(error), message_of(error))
        found = {each.user: _described(each) for each in described}
        users = [found.get(user) or DescribedUser(user, *_named_twice(user)) for user in times]
        return DescribeUsersAnswer(users=tuple(users))

    async def alter(self, request: AlterUsersRequest, call: Call) -> AlterUsersAnswer:
        """All changes of a user happen, or none. Each user has an outcome of its own."""
        entries: list[Deletion | Upsertion] = [*request.deletions, *request.upsertions]
        outcomes: dict[str, AlteredUser] = {}
        try:
            self._access.check(call.caller, ALTER_CLUSTER)
            check_count(entries, "changes of users")
            changes, outcomes = _changes(entries)
            if changes:
                controller = self._controller(call.caller)
                results = await controller.ask(ALTER_USERS, changes, Deadline(self._clock))
                outcomes |= {each.user: _altered(each.user, each.error) for each in results}
        except StrandlineError as error:
            outcomes = {entry.user: _altered(entry.user, error) for entry in entries} | outcomes
        users = dict.fromkeys(entry.user for entry in entries)
        return AlterUsersAnswer(tuple([outcomes[user] for user in users]))

    async def _ask(self, users: Sequence[str], call: Call) -> Sequence[UserDescription]:
        return await self._controller(call.caller).ask(DESCRIBE_USERS, users, Deadline(self._clock))


def _changes(entries: Sequence[Deletion | Upsertion]) -> tuple[list[UserChange], dict[str, AlteredUser]]:
    """What the controller is asked for, and the outcomes of those users of whom it cannot be asked."""
    changes: list[UserChange] = []
    refused: dict[str, AlteredUser] = {}
    named: set[tuple[str, int]] = set()
    for entry in entries:
        user = entry.user
        if (user, entry.mechanism) in named:
            refused[user] = AlteredUser(user, *_named_twice(user))
        named.add((user, entry.mechanism))
        try:
            changes.append(_change(entry))
        except UnsupportedSaslMechanism as error:
            refused.setdefault(user, _altered(user, error))
        except InvalidRequest as error:
            refused.setdefault(user, AlteredUser(user, KafkaCode.UNACCEPTABLE_CREDENTIAL, error.message))
    return [change for change in changes if change.user not in refused], refused


def _change(entry: Deletion | Upsertion) -> UserChange:
    """Raises UnsupportedSaslMechanism, InvalidRequest."""
    mechanism = _MECHANISMS.get(entry.mechanism)
    if mechanism is None:
        raise UnsupportedSaslMechanism(
            f"mechanism {entry.mechanism} is none of 1 (SCRAM-SHA-256) and 2 (SCRAM-SHA-512)"
        )
    if isinstance(entry, Deletion):
        return UserChange(entry.user, mechanism)
    # The controller gets less than the client sent: a salted password is enough for a login.
    credential = credential_of(mechanism, entry.salted_password, entry.salt, entry.iterations)
    return UserChange(entry.user, mechanism, credential)


def _named_twice(user: str) -> tuple[int, str]:
    return KafkaCode.DUPLICATE_RESOURCE, f"the request names user {user[:32]!r} or its credential twice"


def _altered(user: str, error: StrandlineError | None) -> AlteredUser:
    return AlteredUser(user, code_of(error), message_of(error))


def _described(found: UserDescription) -> DescribedUser:
    return DescribedUser(
        found.user,
        code_of(found.error),
        text_of(found.error),
        tuple([CredentialInfo(KAFKA_NUMBERS[name], count) for name, count in found.iterations.items()]),
    )
