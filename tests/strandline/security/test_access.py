"""What handlers ask about callers, and how they refuse them (A3)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from strandline.errors import (
    BrokerNotAvailable,
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    LeaderNotAvailable,
    NotCoordinator,
    NotLeaderOrFollower,
    StrandlineError,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from strandline.ports import Caller
from strandline.security.access import Access
from strandline.security.acls import AclBinding, PatternType, Permission, ResourcePattern
from strandline.security.authorizer import Authorizer, Rules
from strandline.security.decide import Acls
from strandline.security.members import MemberPrincipals
from strandline.security.principal import ANONYMOUS, Principal
from strandline.security.rights import (
    ALTER_CLUSTER,
    ALTER_TOPIC,
    ALTER_TOPIC_CONFIGS,
    CLUSTER_ACTION,
    CREATE_CLUSTER,
    CREATE_TOPIC,
    DESCRIBE_GROUP,
    IDEMPOTENT_WRITE,
    READ_TOPIC,
    WRITE_TOPIC,
    WRITE_TRANSACTIONAL_ID,
    Right,
)
from strandline.security.topic_changes import alteration_refusal, creation_refusal, write_refusal

ALICE = Caller("ipv4:192.0.2.1:1", "192.0.2.1", principal=Principal("alice"))
ANYONE = replace(ALICE, principal=ANONYMOUS)
BROKER_2 = replace(ALICE, principal=Principal("broker-2"))
KEY = b"key"


def granted(right: Right, name: str, kind: PatternType = PatternType.LITERAL) -> AclBinding:
    pattern = ResourcePattern(right.of, name, kind)
    return AclBinding(pattern, ALICE.principal, "*", right.operation, Permission.ALLOW)


def access(*bindings: AclBinding) -> Access:
    brokers = MemberPrincipals.parse("User:broker-{id}")
    authorizer = Authorizer(Rules(super_users=frozenset({Principal("root")}), brokers=brokers))
    authorizer.take(Acls(1, bindings))
    return Access(authorizer, lambda shown: shown == KEY)


def open_access() -> Access:
    return Access(Authorizer(None), lambda shown: shown == KEY)


@pytest.mark.parametrize(
    ("right", "name", "error", "text"),
    [
        (READ_TOPIC, "tides", TopicAuthorizationFailed, "READ on topic 'tides'"),
        (DESCRIBE_GROUP, "harbour", GroupAuthorizationFailed, "DESCRIBE on group 'harbour'"),
        (
            WRITE_TRANSACTIONAL_ID,
            "ebb",
            TransactionalIdAuthorizationFailed,
            "WRITE on transactional id 'ebb'",
        ),
        (ALTER_CLUSTER, "kafka-cluster", ClusterAuthorizationFailed, "ALTER on the cluster"),
    ],
)
def test_a_refusal_names_the_caller_the_operation_and_the_resource(
    right: Right, name: str, error: type[StrandlineError], text: str
) -> None:
    """A3"""
    with pytest.raises(error, match=text) as refused:
        access().check(ALICE, right, name)
    assert "User:alice from 192.0.2.1" in refused.value.message
    access(granted(right, name)).check(ALICE, right, name)


def test_before_the_acls_are_known_a_refusal_says_to_ask_again() -> None:
    """Who has every right anyway is not refused (A3)."""
    early = Access(Authorizer(Rules(super_users=frozenset({Principal("root")}))), lambda shown: shown == KEY)
    with pytest.raises(NotLeaderOrFollower):
        early.check(ALICE, READ_TOPIC, "tides")
    assert isinstance(early.refusals(ALICE, READ_TOPIC, ["tides"])["tides"], NotLeaderOrFollower)
    early.check(replace(ALICE, principal=Principal("root")), READ_TOPIC, "tides")
    early.check(replace(ANYONE, member_key=KEY), CLUSTER_ACTION)


def test_each_of_several_names_is_decided_by_itself() -> None:
    """A3"""
    rights = access(granted(READ_TOPIC, "team-", PatternType.PREFIXED))
    assert rights.refusals(ALICE, READ_TOPIC, ["team-a", "other", "team-b"]).keys() == {"other"}


def test_a_caller_that_shows_the_members_key_may_do_everything() -> None:
    """A3: members without names, on a listener that does not ask for them."""
    for key, allowed in ((KEY, True), (b"another", False), (None, False)):
        assert access().allowed(replace(ANYONE, member_key=key), CLUSTER_ACTION) == allowed


@pytest.mark.parametrize(
    ("bindings", "allowed"),
    [
        ([granted(IDEMPOTENT_WRITE, "kafka-cluster")], True),
        ([granted(WRITE_TOPIC, "any")], True),
        ([granted(READ_TOPIC, "any")], False),
    ],
)
def test_a_producer_id_is_for_callers_that_may_write_something(
    bindings: list[AclBinding], allowed: bool
) -> None:
    """A3, as KIP-679 has it."""
    if allowed:
        access(*bindings).check_idempotent(ALICE)
        return
    with pytest.raises(ClusterAuthorizationFailed, match="IDEMPOTENT_WRITE"):
        access(*bindings).check_idempotent(ALICE)


def test_a_broker_is_the_one_that_its_principal_names() -> None:
    """A5: neither another broker nor a client with every right is it."""
    access().check_broker(BROKER_2, 2)
    everything = access(granted(CLUSTER_ACTION, "kafka-cluster"))
    for caller, broker in ((BROKER_2, 1), (ALICE, 2), (replace(ALICE, member_key=KEY), 2), (ANYONE, 2)):
        with pytest.raises(ClusterAuthorizationFailed):
            everything.check_broker(caller, broker)


@pytest.mark.parametrize("enforced", [True, False])
def test_a_broker_without_a_name_shows_the_members_key(enforced: bool) -> None:
    """A5: on a listener that does not ask for names, its id is believed. Without an authorizer too, no one
    else is a member; another key than the one that was read may be a member's, which asks again."""
    rights = access(granted(CLUSTER_ACTION, "kafka-cluster")) if enforced else open_access()
    shows_key = replace(ANYONE, member_key=KEY)
    rights.check_broker(shows_key, 1)
    rights.check_member(shows_key)
    for check in (partial(rights.check_broker, broker=1), rights.check_member):
        with pytest.raises(ClusterAuthorizationFailed, match="shows no members' key"):
            check(ANYONE)
        with pytest.raises(BrokerNotAvailable):
            check(replace(ANYONE, member_key=b"another"))


@pytest.mark.parametrize("enforced", [True, False])
def test_no_acl_makes_a_member(enforced: bool) -> None:
    """A5: a client with every right to the cluster is none, also with a certificate and no authorizer."""
    rights = access(granted(CLUSTER_ACTION, "kafka-cluster")) if enforced else open_access()
    assert isinstance(rights.member_refusal(ALICE), ClusterAuthorizationFailed)
    assert (rights.member_refusal(BROKER_2) is None) == enforced


def test_without_an_authorizer_nothing_is_refused_and_no_name_is_owned() -> None:
    """A3"""
    rights = open_access()
    rights.check(ANYONE, ALTER_CLUSTER)
    rights.check_idempotent(ANYONE)
    assert rights.owner(ALICE) is None
    assert access().owner(ALICE) == ALICE.principal


def test_internal_topics_need_rights_to_the_cluster() -> None:
    """A5: a right to every topic is not enough."""
    every = [granted(right, "*") for right in (WRITE_TOPIC, ALTER_TOPIC, ALTER_TOPIC_CONFIGS)]
    few, more = access(*every), access(*every, granted(ALTER_CLUSTER, "kafka-cluster"))
    assert isinstance(write_refusal(few, ALICE, "__consumer_offsets"), TopicAuthorizationFailed)
    assert write_refusal(few, ALICE, "tides") is None

    def alters(rights: Access, topic: str) -> bool:
        return all(
            alteration_refusal(rights, ALICE, topic, configs=configs, partitions=not configs) is None
            for configs in (True, False)
        )

    assert alters(few, "tides") and alters(more, "__consumer_offsets")
    assert not alters(few, "__consumer_offsets")


def test_a_topic_is_created_by_a_right_to_the_cluster_or_to_its_name() -> None:
    """A3"""
    for binding, names in (
        (granted(CREATE_CLUSTER, "kafka-cluster"), {"team-a", "other"}),
        (granted(CREATE_TOPIC, "team-", PatternType.PREFIXED), {"team-a"}),
    ):
        rights = access(binding)
        assert {
            name for name in ("team-a", "other") if creation_refusal(rights, ALICE, name) is None
        } == names


def test_each_kind_of_alteration_needs_its_own_right() -> None:
    """A3"""
    for right, configs in ((ALTER_TOPIC_CONFIGS, True), (ALTER_TOPIC, False)):
        rights = access(granted(right, "tides"))
        for asked in (True, False):
            refusal = alteration_refusal(rights, ALICE, "tides", configs=asked, partitions=not asked)
            assert (refusal is None) == (asked == configs)
        both = alteration_refusal(rights, ALICE, "tides", configs=True, partitions=True)
        assert isinstance(both, TopicAuthorizationFailed)


@pytest.mark.parametrize(
    ("right", "error"),
    [
        (WRITE_TOPIC, NotLeaderOrFollower),
        (DESCRIBE_GROUP, NotCoordinator),
        (WRITE_TRANSACTIONAL_ID, NotCoordinator),
        (ALTER_CLUSTER, LeaderNotAvailable),
    ],
)
def test_before_the_acls_are_known_a_refusal_is_one_after_which_every_client_asks_again(
    right: Right, error: type[StrandlineError]
) -> None:
    """A3: a client that reaches a broker while it starts has done nothing wrong; also for internal topics."""
    early = Access(Authorizer(Rules()))
    refusal = early.refusal(ALICE, right, "name")
    assert type(refusal) is error and refusal.retriable
    internal = write_refusal(early, ALICE, "__consumer_offsets")
    assert internal is not None and internal.retriable
