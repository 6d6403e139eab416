"""The authorizer: who needs no ACL, what it remembers, and for how long."""

from __future__ import annotations

import pytest

from strandline.errors import InvalidRequest
from strandline.ports import Caller
from strandline.security.acls import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from strandline.security.authorizer import CALLERS_MAX, DECISIONS_PER_CALLER_MAX, Authorizer, Rules
from strandline.security.decide import Acls, Decision, Ground
from strandline.security.login.mechanisms import MECHANISMS, OAUTHBEARER, PLAIN
from strandline.security.members import MemberPrincipals
from strandline.security.principal import ANONYMOUS, Principal, parse_principals

TOPIC, READ = ResourceType.TOPIC, Operation.READ
ALICE = Principal("alice")


def asking(principal: Principal, host: str = "192.0.2.1") -> Caller:
    return Caller(host, host, principal=principal)


def allow(name: str, *, deny: bool = False, host: str = "*", principal: Principal = ALICE) -> AclBinding:
    permission = Permission.DENY if deny else Permission.ALLOW
    pattern = ResourcePattern(TOPIC, name, PatternType.LITERAL)
    return AclBinding(pattern, principal, host, READ, permission)


def authorizer(*bindings: AclBinding, everyone: bool = False) -> Authorizer:
    made = Authorizer(
        Rules(
            parse_principals("User:root; User:CN=ops,O=x"),
            MemberPrincipals.parse("User:broker-{id}"),
            MemberPrincipals.parse("0=User:CN=boss;1=User:CN=boss2"),
            everyone,
        )
    )
    made.take(Acls(1, bindings))
    return made


def test_without_rules_everything_is_allowed() -> None:
    assert Authorizer(None).allowed(asking(ANONYMOUS), READ, TOPIC, "tides")
    assert Authorizer(None).allowed_any(asking(ANONYMOUS), READ, TOPIC)


@pytest.mark.parametrize("name", ["root", "CN=ops,O=x", "broker-1", "broker-0", "CN=boss"])
def test_super_users_and_members_pass_before_every_denial(name: str) -> None:
    made = authorizer(allow("*", deny=True, principal=Principal("*")))
    assert made.allowed(asking(Principal(name)), READ, TOPIC, "tides")
    assert made.allowed_any(asking(Principal(name)), READ, TOPIC)


@pytest.mark.parametrize(
    "name",
    ["Root", "broker-", "broker-01", "broker-1x", "broker--1", "broker-\u0661", "xbroker-1", "CN=boss3"],
)
def test_a_name_that_is_only_alike_is_another_principal(name: str) -> None:
    assert not authorizer().allowed(asking(Principal(name)), READ, TOPIC, "tides")
    assert not authorizer().allowed(asking(Principal("root", "Group")), READ, TOPIC, "tides")


def test_a_member_is_known_by_its_id() -> None:
    rules = authorizer().rules
    assert rules is not None
    assert rules.brokers.id_of(Principal("broker-12")) == 12
    assert rules.controllers.id_of(Principal("CN=boss2")) == 1
    assert rules.controllers.id_of(Principal("broker-12")) is None


@pytest.mark.parametrize(
    "text", ["broker-{id}", "User:{id}-{id}", "{id}:x", "User:x", "a=User:x", "1=x", "1=User:x;2=User:x"]
)
def test_a_wrong_list_of_members_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        MemberPrincipals.parse(text)


def test_before_the_first_picture_only_those_without_acls_pass() -> None:
    made = Authorizer(Rules(parse_principals("User:root")))
    assert made.allowed(asking(Principal("root")), READ, TOPIC, "tides")
    assert made.decision(asking(ALICE), READ, TOPIC, "tides") == Decision(False, Ground.NOT_LOADED)
    made.take(Acls(1, [allow("tides")]))
    assert made.allowed(asking(ALICE), READ, TOPIC, "tides")


def test_without_a_picture_again_only_those_without_acls_pass() -> None:
    """A controller that is no longer the active one does not see what its successor changes. Versions go on:
    the next picture is no earlier one."""
    made = authorizer(allow("tides"))
    assert made.allowed(asking(ALICE), READ, TOPIC, "tides")
    assert made.loaded
    made.forget()
    assert not made.loaded
    assert not made.allowed(asking(ALICE), READ, TOPIC, "tides")
    assert made.version == 1


def test_a_new_picture_ends_what_is_remembered() -> None:
    made = authorizer(allow("tides"))
    assert made.allowed(asking(ALICE), READ, TOPIC, "tides")
    made.take(Acls(2))
    assert not made.allowed(asking(ALICE), READ, TOPIC, "tides")
    assert made.version == 2


def test_everyone_may_use_what_no_acl_is_about() -> None:
    made = authorizer(allow("tides", principal=Principal("bob")), everyone=True)
    assert made.allowed(asking(ALICE), READ, TOPIC, "waves")
    assert not made.allowed(asking(ALICE), READ, TOPIC, "tides")
    assert made.allowed_any(asking(ALICE), READ, TOPIC)


def test_an_address_counts_in_every_zone() -> None:
    """gRPC tells the zone of a link-local address, and the Kafka port does not."""
    made = authorizer(allow("tides"), allow("tides", deny=True, host="fe80::1"))
    for host in ("fe80::1", "fe80::1%eth0"):
        assert not made.allowed(asking(ALICE, host), READ, TOPIC, "tides")
    assert made.allowed(asking(ALICE, "fe80::2%eth0"), READ, TOPIC, "tides")


def test_an_address_counts_in_any_spelling() -> None:
    made = authorizer(allow("tides", host="192.0.2.7"))
    assert made.allowed(asking(ALICE, "::ffff:192.0.2.7"), READ, TOPIC, "tides")
    assert not made.allowed(asking(ALICE, "192.0.2.8"), READ, TOPIC, "tides")


def test_names_that_clients_invent_do_not_fill_the_memory() -> None:
    made = authorizer(allow("tides"))
    for number in range(DECISIONS_PER_CALLER_MAX + 10):
        assert not made.allowed(asking(ALICE), READ, TOPIC, f"n{number}")
    for number in range(CALLERS_MAX + 10):
        assert made.allowed(asking(ALICE, f"h{number}"), READ, TOPIC, "tides")
    assert made.remembered() <= CALLERS_MAX + DECISIONS_PER_CALLER_MAX


@pytest.mark.parametrize("by_token", [False, True])
def test_no_login_gives_a_name_that_means_more_than_its_user(by_token: bool) -> None:
    """A18: neither a member's, nor that of callers without one; a super user's by a token only if it is said
    that the issuer can be trusted with it."""
    brokers = MemberPrincipals.parse("User:broker-{id}")
    root, alice, member = Principal("root"), Principal("alice"), Principal("broker-7")
    authorizer = Authorizer(Rules(frozenset({root}), brokers, super_users_by_token=by_token))
    for mechanism in MECHANISMS:
        assert authorizer.withholds(member, mechanism)
        assert authorizer.withholds(ANONYMOUS, mechanism)
        assert not authorizer.withholds(alice, mechanism)
        assert authorizer.withholds(root, mechanism) == (mechanism == OAUTHBEARER and not by_token)
    assert Authorizer(None).withholds(ANONYMOUS, PLAIN)
    assert not Authorizer(None).withholds(root, OAUTHBEARER)
